// RUN: %opt -p expand-error-functions %s --split-input-file | filecheck %s

// bf16: tanh of x times two terms of x²; a fraction of |x| through the exponential of x².

func.func @main(%0: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %1 = "chlo.erf"(%0) : (tensor<4xbf16>) -> tensor<4xbf16>
  %2 = "chlo.erfc"(%0) : (tensor<4xbf16>) -> tensor<4xbf16>
  func.return %1, %2 : tensor<4xbf16>, tensor<4xbf16>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.minimum"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.tanh"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<4xbf16>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<4xf16>
// CHECK:         "stablehlo.divide"{{.*}}-> tensor<4xf16>
// CHECK:         "stablehlo.divide"{{.*}}-> tensor<4xf16>
// CHECK:         "stablehlo.exponential"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.reduce_precision"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.divide"{{.*}}-> tensor<4xbf16>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<4xbf16>
// CHECK:           func.return

// -----

// f32: erfc by two exponentials; erf stays.

func.func @main(%0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %1 = "chlo.erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "chlo.erfc"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK:      func.func @main(
// CHECK:         "chlo.erf"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.reduce_precision"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.exponential"{{.*}}-> tensor<4xf32>
// CHECK-COUNT-5: "stablehlo.divide"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.exponential"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.divide"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<4xf32>
// CHECK:           func.return %1, %
