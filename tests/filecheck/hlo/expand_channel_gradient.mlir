// RUN: %opt -p expand-channel-gradient %s --split-input-file | filecheck %s

// Each channel is a batch group of its own: products of views are added up.

func.func @main(%0: tensor<16x2x5x5xf32>, %1: tensor<16x2x3x3xf32>) -> tensor<1x16x3x3xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 16 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<16x2x5x5xf32>, tensor<16x2x3x3xf32>) -> tensor<1x16x3x3xf32>
  func.return %2 : tensor<1x16x3x3xf32>
}

// CHECK:      func.func @main(
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<3x3x2x3x3x16xf32>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<3x3x2x3x3x16xf32>
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<3x3x2x3x3x16xf32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:           func.return %5
