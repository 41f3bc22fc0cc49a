// RUN: %opt -p move-channels-last %s --split-input-file | filecheck %s

// The channels lie next to each other for the convolution, and where they were after it.

func.func @main(%0: tensor<2x16x12x12xf32>, %1: tensor<16x1x3x3xf32>) -> tensor<2x16x10x10xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 16 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x16x12x12xf32>, tensor<16x1x3x3xf32>) -> tensor<2x16x10x10xf32>
  func.return %2 : tensor<2x16x10x10xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.transpose"(%0){{.*}}-> tensor<2x12x12x16xf32>
// CHECK-NEXT:   %3 = "stablehlo.transpose"(%1){{.*}}-> tensor<3x3x1x16xf32>
// CHECK-NEXT:   %4 = "stablehlo.convolution"(%2, %3){{.*}}-> tensor<2x10x10x16xf32>
// CHECK-NEXT:   %5 = "stablehlo.transpose"(%4){{.*}}-> tensor<2x16x10x10xf32>
// CHECK-NEXT:   func.return %5
