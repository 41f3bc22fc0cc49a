// RUN: %opt -p order-filters %s --split-input-file | filecheck %s

// Filters come last; those of a window that is read backwards are reversed.

func.func @main(%0: tensor<2x12x12x16xf32>, %1: tensor<8x16x3x3xf32>) -> tensor<2x10x10x8xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_reversal = array<i1: 0, 1>, window_strides = array<i64: 1, 1>}> : (tensor<2x12x12x16xf32>, tensor<8x16x3x3xf32>) -> tensor<2x10x10x8xf32>
  func.return %2 : tensor<2x10x10x8xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.reverse"(%1) <{dimensions = array<i64: 3>}>
// CHECK-NEXT:   %[[T:.*]] = "stablehlo.transpose"(%[[R]]) <{permutation = array<i64: 2, 3, 1, 0>}> {{.*}}-> tensor<3x3x16x8xf32>
// CHECK-NEXT:   "stablehlo.convolution"(%0, %[[T]])
// CHECK-NOT:    window_reversal
// CHECK-SAME:   [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]

// -----

// A window of one element is a matrix, and what a gradient of weights goes over is an image.

func.func @main(%0: tensor<2x12x12x16xf32>, %1: tensor<8x16x1x1xf32>, %2: tensor<8x12x12x2xf32>) -> (tensor<2x12x12x8xf32>, tensor<2x3x3x2xf32>) {
  %3 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x12x12x16xf32>, tensor<8x16x1x1xf32>) -> tensor<2x12x12x8xf32>
  %4 = "stablehlo.convolution"(%3, %2) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[i, 0, 1, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, padding = #hlo.elements<#hlo.literal<"int64", [], "AQAAAAAAAAA=">, tensor<2x2xi64>>, window_strides = array<i64: 1, 1>}> : (tensor<2x12x12x8xf32>, tensor<8x12x12x2xf32>) -> tensor<2x3x3x2xf32>
  func.return %3, %4 : tensor<2x12x12x8xf32>, tensor<2x3x3x2xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.convolution"(%0, %1) {{.*}}[o, i, 0, 1]
// CHECK-NEXT:   "stablehlo.convolution"({{.*}}[i, 0, 1, o]

// -----

// Weights of bytes as well; those that have features last stay if few images would share them, as one instruction takes them all.

func.func @main(%0: tensor<4x12x12x256xi8>, %1: tensor<3x3x256x8xi8>, %2: tensor<8x3x3x256xi8>, %3: tensor<1x12x12x256xi8>) -> (tensor<4x10x10x8xi32>, tensor<4x10x10x8xi32>, tensor<1x10x10x8xi32>) {
  %4 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<4x12x12x256xi8>, tensor<3x3x256x8xi8>) -> tensor<4x10x10x8xi32>
  %5 = "stablehlo.convolution"(%0, %2) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<4x12x12x256xi8>, tensor<8x3x3x256xi8>) -> tensor<4x10x10x8xi32>
  %6 = "stablehlo.convolution"(%3, %2) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<1x12x12x256xi8>, tensor<8x3x3x256xi8>) -> tensor<1x10x10x8xi32>
  func.return %4, %5, %6 : tensor<4x10x10x8xi32>, tensor<4x10x10x8xi32>, tensor<1x10x10x8xi32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.convolution"(%0, %1) {{.*}}[0, 1, i, o]
// CHECK-NEXT:   %[[W:.*]] = "stablehlo.transpose"(%2) <{permutation = array<i64: 1, 2, 3, 0>}>
// CHECK-NEXT:   "stablehlo.convolution"(%0, %[[W]]) {{.*}}[0, 1, i, o]
// CHECK-NEXT:   "stablehlo.convolution"(%3, %2) {{.*}}[o, 0, 1, i]

// -----

// Few features: the engine takes all elements of a window at once, as a product per element would multiply mostly what is not there.

func.func @main(%0: tensor<2x12x12x5xi8>, %1: tensor<3x3x5x8xi8>) -> tensor<2x5x5x8xi32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, window_strides = array<i64: 2, 2>}> : (tensor<2x12x12x5xi8>, tensor<3x3x5x8xi8>) -> tensor<2x5x5x8xi32>
  func.return %2 : tensor<2x5x5x8xi32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[W:.*]] = "stablehlo.transpose"(%1) <{permutation = array<i64: 0, 1, 3, 2>}>
// CHECK-NEXT:   "stablehlo.convolution"(%0, %[[W]]) {{.*}}[0, 1, o, i]
