// RUN: %opt -p fold-windows %s --split-input-file | filecheck %s

// Patches of an image: a row of one is a place with as many channels.

func.func @main(%0: tensor<2x8x12x3xf32>, %1: tensor<4x4x3x8xf32>) -> tensor<2x2x3x8xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 4, 4>}> : (tensor<2x8x12x3xf32>, tensor<4x4x3x8xf32>) -> tensor<2x2x3x8xf32>
  func.return %2 : tensor<2x2x3x8xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[X:.*]] = "stablehlo.reshape"(%0) : {{.*}}-> tensor<2x8x3x12xf32>
// CHECK-NEXT:   %[[W:.*]] = "stablehlo.reshape"(%1) : {{.*}}-> tensor<4x1x12x8xf32>
// CHECK-NEXT:   "stablehlo.convolution"(%[[X]], %[[W]]) {{.*}}window_strides = array<i64: 4, 1>

// -----

// Weights whose channels come first are brought into that order.

func.func @main(%0: tensor<2x12x3xi8>, %1: tensor<8x3x4xi8>) -> tensor<2x3x8xi32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, f]x[o, i, 0]->[b, 0, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 4>}> : (tensor<2x12x3xi8>, tensor<8x3x4xi8>) -> tensor<2x3x8xi32>
  func.return %2 : tensor<2x3x8xi32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[T:.*]] = "stablehlo.transpose"(%1) <{permutation = array<i64: 2, 1, 0>}>
// CHECK-NEXT:   %[[X:.*]] = "stablehlo.reshape"(%0) : {{.*}}-> tensor<2x3x12xi8>
// CHECK-NEXT:   %[[W:.*]] = "stablehlo.reshape"(%[[T]]) : {{.*}}-> tensor<1x12x8xi8>
// CHECK-NEXT:   "stablehlo.convolution"(%[[X]], %[[W]]) {{.*}}[b, 0, f]x[0, i, o]->[b, 0, f]{{.*}}window_strides = array<i64: 1>

// -----

// Not where windows overlap, begin outside of the image, or leave a part of it.

func.func @main(%0: tensor<2x8x12x3xf32>, %1: tensor<4x4x3x8xf32>, %2: tensor<2x8x13x3xf32>) -> (tensor<2x2x5x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x3x8xf32>) {
  %3 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 4, 2>}> : (tensor<2x8x12x3xf32>, tensor<4x4x3x8xf32>) -> tensor<2x2x5x8xf32>
  %4 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, padding = #hlo.elements<#hlo.literal<"int64", [2, 2], "AAAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAgAAAAAAAAA=">, tensor<2x2xi64>>, window_strides = array<i64: 4, 4>}> : (tensor<2x8x12x3xf32>, tensor<4x4x3x8xf32>) -> tensor<2x2x4x8xf32>
  %5 = "stablehlo.convolution"(%2, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 4, 4>}> : (tensor<2x8x13x3xf32>, tensor<4x4x3x8xf32>) -> tensor<2x2x3x8xf32>
  func.return %3, %4, %5 : tensor<2x2x5x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x3x8xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.convolution"(%0, %1)
// CHECK-NEXT:   "stablehlo.convolution"(%0, %1)
// CHECK-NEXT:   "stablehlo.convolution"(%2, %1)
