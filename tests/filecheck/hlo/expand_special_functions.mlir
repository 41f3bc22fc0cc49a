// RUN: %opt -p expand-special-functions %s --split-input-file | filecheck %s

// One exponential and one reciprocal root; of f64 it stays.

func.func @main(%0: tensor<4xbf16>, %1: tensor<4xf64>) -> (tensor<4xbf16>, tensor<4xf64>) {
  %2 = "chlo.bessel_i1e"(%0) : (tensor<4xbf16>) -> tensor<4xbf16>
  %3 = "chlo.bessel_i1e"(%1) : (tensor<4xf64>) -> tensor<4xf64>
  func.return %2, %3 : tensor<4xbf16>, tensor<4xf64>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.exponential"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.rsqrt"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.convert"{{.*}}-> tensor<4xbf16>
// CHECK-NEXT:    "chlo.bessel_i1e"{{.*}}-> tensor<4xf64>

// -----

// One logarithm of a product, and a square root.

func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {
  %1 = "chlo.erf_inv"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<4xf32>
// CHECK-NEXT:    "stablehlo.log"{{.*}}-> tensor<4xf32>
// CHECK:         "stablehlo.sqrt"{{.*}}-> tensor<4xf32>
// CHECK-NOT:     chlo
// CHECK:           func.return

// -----

// zeta and digamma, with operands in the shape of the result; no lgamma.

func.func @main(%0: tensor<3x1xf32>, %1: tensor<4xf32>) -> tensor<3x4xf32> {
  %2 = "chlo.broadcast_polygamma"(%0, %1) : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  func.return %2 : tensor<3x4xf32>
}

// CHECK:      func.func @main(
// CHECK-COUNT-2: "stablehlo.broadcast_in_dim"{{.*}}-> tensor<3x4xf32>
// CHECK:         "chlo.zeta"{{.*}}-> tensor<3x4xf32>
// CHECK-NOT:     polygamma
// CHECK:         "chlo.digamma"{{.*}}-> tensor<3x4xf32>
// CHECK-NOT:     polygamma
// CHECK:           func.return
