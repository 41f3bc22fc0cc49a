// RUN: %opt -p expand-batch-norm %s --split-input-file | filecheck %s

// The emitter of its fusion takes an inference as one op, if the vector engine computes with its elements.

func.func @main(%0: tensor<2x3xbf16>, %1: tensor<3xbf16>) -> tensor<2x3xbf16> {
  %2 = "stablehlo.batch_norm_inference"(%0, %1, %1, %1, %1) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xbf16>, tensor<3xbf16>, tensor<3xbf16>, tensor<3xbf16>, tensor<3xbf16>) -> tensor<2x3xbf16>
  func.return %2 : tensor<2x3xbf16>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.batch_norm_inference"(%0, %1, %1, %1, %1)
// CHECK-NEXT:   func.return %2

// -----

// Others become arithmetic: the ten steps' order.

func.func @main(%0: tensor<2x3xf64>, %1: tensor<3xf64>) -> tensor<2x3xf64> {
  %2 = "stablehlo.batch_norm_inference"(%0, %1, %1, %1, %1) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  func.return %2 : tensor<2x3xf64>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.subtract"{{.*}}-> tensor<2x3xf64>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<3xf64>
// CHECK:         "stablehlo.rsqrt"{{.*}}-> tensor<3xf64>
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<2x3xf64>
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<2x3xf64>
// CHECK:         %[[Y:.*]] = "stablehlo.add"{{.*}}-> tensor<2x3xf64>
// CHECK-NEXT:    func.return %[[Y]]

// -----

// Training is two sums, in f32, and an inference with them.

func.func @main(%0: tensor<2x3xbf16>, %1: tensor<3xbf16>) -> tensor<2x3xbf16> {
  %2, %3, %4 = "stablehlo.batch_norm_training"(%0, %1, %1) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xbf16>, tensor<3xbf16>, tensor<3xbf16>) -> (tensor<2x3xbf16>, tensor<3xbf16>, tensor<3xbf16>)
  func.return %2 : tensor<2x3xbf16>
}

// CHECK:      func.func @main(
// CHECK:         %[[X:.*]] = "stablehlo.convert"{{.*}}-> tensor<2x3xf32>
// CHECK:         "stablehlo.reduce"(%[[X]],
// CHECK:         %[[M:.*]] = "stablehlo.divide"{{.*}}-> tensor<3xf32>
// CHECK:         "stablehlo.reduce"
// CHECK:         %[[V:.*]] = "stablehlo.divide"{{.*}}-> tensor<3xf32>
// CHECK-NEXT:    %[[N:.*]] = "stablehlo.batch_norm_inference"(%[[X]], {{.*}}, {{.*}}, %[[M]], %[[V]])
// CHECK:         %[[Y:.*]] = "stablehlo.convert"(%[[N]]) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
// CHECK:         func.return %[[Y]]
