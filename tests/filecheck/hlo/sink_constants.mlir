// RUN: %opt -p sink-constants %s --split-input-file | filecheck %s

// The factor two lies in the combiner afterwards.

func.func @main(%0: tensor<5xf32>) -> tensor<f32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAQA==">}> : () -> tensor<f32>
  %3 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 0>}> ({
  ^bb0(%4: tensor<f32>, %5: tensor<f32>):
    %6 = "stablehlo.multiply"(%5, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "stablehlo.add"(%4, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%7) : (tensor<f32>) -> ()
  }) : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
  func.return %3 : tensor<f32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.constant"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.constant"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.constant"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:           func.return %3
