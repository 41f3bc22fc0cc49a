// RUN: %opt -p expand-approx-top-k %s --split-input-file | filecheck %s

// All of the row is sorted by the comparator, which nobody calls any more, and the first two are kept.

func.func @f(%0: tensor<f32>, %1: tensor<f32>, %2: tensor<i32>, %3: tensor<i32>) -> tensor<i1> {
  %4 = "stablehlo.compare"(%0, %1) <{comparison_direction = "GT"}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
  func.return %4 : tensor<i1>
}
func.func @main(%0: tensor<3x8xf32>, %1: tensor<3x8xi32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %3 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "/////w==">}> : () -> tensor<i32>
  %4, %5 = "stablehlo.custom_call"(%0, %1, %2, %3) <{call_target_name = "ApproxTopK", called_computations = [@f]}> {mhlo.backend_config = {aggregate_to_topk = true, is_fallback = false, recall_target = 9.000000e-01 : f32, reduction_dim = 1 : i64, top_k = 2 : i64}} : (tensor<3x8xf32>, tensor<3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  func.return %4, %5 : tensor<3x2xf32>, tensor<3x2xi32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<3x2xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<3x2xi32>
// CHECK:           func.return %11, %12
