// RUN: %opt -p expand-fft %s --split-input-file | filecheck %s

// A short transform is one product with the Fourier matrix.

func.func @main(%0: tensor<3x4xcomplex<f32>>) -> tensor<3x4xcomplex<f32>> {
  %1 = "stablehlo.fft"(%0) <{fft_length = array<i64: 4>, fft_type = "FFT"}> : (tensor<3x4xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  func.return %1 : tensor<3x4xcomplex<f32>>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.constant"{{.*}}-> tensor<4x4xcomplex<f32>>
// CHECK:         "stablehlo.dot_general"{{.*}}-> tensor<3x4xcomplex<f32>>
// CHECK:           func.return %4
