// RUN: %opt -p ready-updates %s --split-input-file | filecheck %s

// Places of a type that no kernel core loads are clamped and converted.

func.func @main(%0: tensor<5x4xf32>, %1: tensor<2x4xf32>, %2: tensor<ui64>, %3: tensor<i32>) -> tensor<5x4xf32> {
  %4 = "stablehlo.convert"(%3) : (tensor<i32>) -> tensor<ui64>
  %5 = "stablehlo.dynamic_update_slice"(%0, %1, %2, %4) : (tensor<5x4xf32>, tensor<2x4xf32>, tensor<ui64>, tensor<ui64>) -> tensor<5x4xf32>
  func.return %5 : tensor<5x4xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %4 = "stablehlo.convert"(%3){{.*}}-> tensor<ui64>
// CHECK-NEXT:   %5 = "stablehlo.constant"(){{.*}}-> tensor<ui64>
// CHECK-NEXT:   %6 = "stablehlo.minimum"(%2, %5){{.*}}-> tensor<ui64>
// CHECK-NEXT:   %7 = "stablehlo.convert"(%6){{.*}}-> tensor<i64>
// CHECK-NEXT:   %8 = "stablehlo.constant"(){{.*}}-> tensor<ui64>
// CHECK-NEXT:   %9 = "stablehlo.minimum"(%4, %8){{.*}}-> tensor<ui64>
// CHECK-NEXT:   %10 = "stablehlo.convert"(%9){{.*}}-> tensor<i64>
// CHECK-NEXT:   %11 = "stablehlo.dynamic_update_slice"(%0, %1, %7, %10){{.*}}-> tensor<5x4xf32>
// CHECK-NEXT:   func.return %11
