// RUN: %opt -p expand-batch-norm %s --split-input-file | filecheck %s

// Statistics in f32, per feature.

func.func @main(%0: tensor<2x3xbf16>, %1: tensor<3xbf16>) -> tensor<2x3xbf16> {
  %2 = "stablehlo.batch_norm_inference"(%0, %1, %1, %1, %1) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xbf16>, tensor<3xbf16>, tensor<3xbf16>, tensor<3xbf16>, tensor<3xbf16>) -> tensor<2x3xbf16>
  func.return %2 : tensor<2x3xbf16>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<2x3xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.subtract"{{.*}}-> tensor<2x3xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.rsqrt"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<2x3xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<2x3xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<2x3xbf16>
// CHECK:           func.return %17
