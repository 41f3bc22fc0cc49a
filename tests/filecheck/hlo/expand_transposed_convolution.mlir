// RUN: %opt -p expand-transposed-convolution %s --split-input-file | filecheck %s

// Windows of 3x3 meet 1, 2 or 4 points of the image: four kinds of results are channels of a convolution of 2x2.

func.func @main(%0: tensor<2x5x6x16xf32>, %1: tensor<3x3x16x8xf32>) -> tensor<2x10x12x8xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, lhs_dilation = array<i64: 2, 2>, padding = #hlo.elements<#hlo.literal<"int64", [2, 2], "AgAAAAAAAAABAAAAAAAAAAIAAAAAAAAAAQAAAAAAAAA=">, tensor<2x2xi64>>, window_strides = array<i64: 1, 1>}> : (tensor<2x5x6x16xf32>, tensor<3x3x16x8xf32>) -> tensor<2x10x12x8xf32>
  func.return %2 : tensor<2x10x12x8xf32>
}

// CHECK:      func.func @main(
// CHECK:        "stablehlo.slice"(%1) {{.*}}strides = array<i64: 2, 2, 1, 1>{{.*}}-> tensor<2x2x16x8xf32>
// CHECK:        "stablehlo.slice"(%1) {{.*}}-> tensor<2x1x16x8xf32>
// CHECK:        "stablehlo.pad"({{.*}}edge_padding_low = array<i64: 0, 1, 0, 0>
// CHECK:        "stablehlo.slice"(%1) {{.*}}-> tensor<1x2x16x8xf32>
// CHECK:        "stablehlo.slice"(%1) {{.*}}-> tensor<1x1x16x8xf32>
// CHECK:        "stablehlo.concatenate"({{.*}}-> tensor<2x2x16x4x8xf32>
// CHECK-NEXT:   %[[W:.*]] = "stablehlo.reshape"({{.*}}-> tensor<2x2x16x32xf32>
// CHECK-NEXT:   "stablehlo.convolution"(%0, %[[W]])
// CHECK-NOT:    lhs_dilation
// CHECK-SAME:   -> tensor<2x5x6x32xf32>
// CHECK-NEXT:   "stablehlo.reshape"({{.*}}-> tensor<2x5x6x2x2x8xf32>
// CHECK-NEXT:   "stablehlo.transpose"({{.*}}-> tensor<2x5x2x6x2x8xf32>
// CHECK-NEXT:   "stablehlo.reshape"({{.*}}-> tensor<2x10x12x8xf32>

// -----

// Windows that move by more than one point stay.

func.func @main(%0: tensor<2x5x6x16xf32>, %1: tensor<3x3x16x8xf32>) -> tensor<2x4x5x8xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>">, feature_group_count = 1 : i64, lhs_dilation = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> : (tensor<2x5x6x16xf32>, tensor<3x3x16x8xf32>) -> tensor<2x4x5x8xf32>
  func.return %2 : tensor<2x4x5x8xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.convolution"(%0, %1) {{.*}}lhs_dilation = array<i64: 2, 2>
