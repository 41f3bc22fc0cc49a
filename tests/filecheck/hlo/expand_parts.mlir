// RUN: %opt -p expand-parts %s --split-input-file | filecheck %s

// A real number has no imaginary part; complex ones are left to expand-complex.

func.func @main(%0: tensor<4xf32>, %1: tensor<4xcomplex<f32>>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %2 = "stablehlo.real"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "stablehlo.imag"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "stablehlo.imag"(%1) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  func.return %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.constant"(){{.*}}-> tensor<4xf32>
// CHECK-NEXT:   %3 = "stablehlo.imag"(%1){{.*}}-> tensor<4xf32>
// CHECK-NEXT:   func.return %0, %2, %3
