// RUN: %opt -p expand-reduce-window %s --split-input-file | filecheck %s

// A view of the padded operand with the window behind the result's dimensions. The padding is -inf: 0 would win over what is below it.

func.func @main(%0: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %2 = "stablehlo.reduce_window"(%0, %1) <{padding = #hlo.elements<#hlo.literal<"int64", [2, 2], "AAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=">, tensor<2x2xi64>>, window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%3: tensor<f32>, %4: tensor<f32>):
    %5 = "stablehlo.maximum"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) : (tensor<8x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  func.return %2 : tensor<4x4xf32>
}

// CHECK:      func.func @main(
// CHECK:         %[[NOTHING:.*]] = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}>
// CHECK:         "hlo.fusion"(%{{.*}}, %[[NOTHING]], %{{.*}})
// CHECK:         "stablehlo.pad"{{.*}}-> tensor<9x4xf32>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<4x4x3xf32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.maximum"{{.*}}-> tensor<f32>
// CHECK:           func.return %{{.*}} : tensor<4x4xf32>
