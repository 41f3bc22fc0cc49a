// RUN: %opt -p expand-dense-convolution %s --split-input-file | filecheck %s

// The window lies in one place.

func.func @main(%0: tensor<2x3x3x4xf32>, %1: tensor<3x3x4x8xf32>) -> tensor<2x1x1x8xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x3x3x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x1x1x8xf32>
  func.return %2 : tensor<2x1x1x8xf32>
}

// CHECK:      func.func @main(
// CHECK:         "hlo.fusion"
// CHECK:         "stablehlo.reshape"{{.*}}-> tensor<2x36xf32>
// CHECK:         "stablehlo.reshape"{{.*}}-> tensor<36x8xf32>
// CHECK:         "stablehlo.dot_general"{{.*}}-> tensor<2x8xf32>
// CHECK:         "stablehlo.reshape"{{.*}}-> tensor<2x1x1x8xf32>
// CHECK:           func.return %2

// -----

// It has several places: it stays.

func.func @main(%0: tensor<2x5x5x4xf32>, %1: tensor<3x3x4x8xf32>) -> tensor<2x3x3x8xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x5x5x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x3x3x8xf32>
  func.return %2 : tensor<2x3x3x8xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.convolution"(%0, %1){{.*}}-> tensor<2x3x3x8xf32>
// CHECK-NEXT:   func.return %2
