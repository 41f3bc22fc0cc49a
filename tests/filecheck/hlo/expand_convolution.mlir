// RUN: %opt -p expand-convolution %s --split-input-file | filecheck %s

// Views with the window behind the dimensions of the result, and a product over features and window.

func.func @main(%0: tensor<2x5x5x4xf32>, %1: tensor<3x3x4x8xf32>) -> tensor<2x5x5x8xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, padding = #hlo.elements<#hlo.literal<"int64", [], "AQAAAAAAAAA=">, tensor<2x2xi64>>, window_strides = array<i64: 1, 1>}> : (tensor<2x5x5x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x5x5x8xf32>
  func.return %2 : tensor<2x5x5x8xf32>
}

// CHECK:      func.func @main(
// CHECK:         "hlo.fusion"
// CHECK:         "stablehlo.pad"{{.*}}-> tensor<2x7x7x4xf32>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x5x5x4x3x3xf32>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x8x4x3x3xf32>
// CHECK:         "stablehlo.dot_general"{{.*}}-> tensor<1x2x5x5x8xf32>
// CHECK:           func.return %3
