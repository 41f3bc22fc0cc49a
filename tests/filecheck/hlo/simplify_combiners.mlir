// RUN: %opt -p simplify-combiners %s --split-input-file | filecheck %s

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

// -----

// What jax writes for `or` of two preds: spread, compared with false and converted from pred to pred. A fusion is its body.

func.func @main(%0: tensor<5xi1>, %1: tensor<i1>) -> tensor<i1> {
  %2 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 0>}> ({
  ^bb0(%3: tensor<i1>, %4: tensor<i1>):
    %5 = "stablehlo.constant"() <{value = #hlo.literal<"bool", [], "AA==">}> : () -> tensor<i1>
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<i1>
    %7 = "stablehlo.compare"(%3, %6) <{comparison_direction = "NE"}> : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %8 = "stablehlo.convert"(%7) : (tensor<i1>) -> tensor<i1>
    %9 = "hlo.fusion"(%8, %4) <{kind = "kLoop", fusion_name = "joined"}> ({
    ^bb1(%10: tensor<i1>, %11: tensor<i1>):
      %12 = "stablehlo.or"(%10, %11) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%12) : (tensor<i1>) -> ()
    }) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    "stablehlo.return"(%9) : (tensor<i1>) -> ()
  }) : (tensor<5xi1>, tensor<i1>) -> tensor<i1>
  func.return %2 : tensor<i1>
}

// CHECK:      func.func @main(
// CHECK:         ^bb0(%[[A:.*]]: tensor<i1>, %[[B:.*]]: tensor<i1>):
// CHECK-NOT:     "stablehlo.broadcast_in_dim"
// CHECK-NOT:     "stablehlo.compare"
// CHECK-NOT:     "hlo.fusion"
// CHECK:           %[[R:.*]] = "stablehlo.or"(%[[A]], %[[B]])
// CHECK-NEXT:      "stablehlo.return"(%[[R]])
