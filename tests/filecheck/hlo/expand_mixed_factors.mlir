// RUN: %opt -p expand-mixed-factors %s --split-input-file | filecheck %s

// bf16 holds all i4; f16 and bf16 meet in f32.

func.func @main(%0: tensor<2x3xbf16>, %1: tensor<3x4xi4>, %2: tensor<3x4xf16>) -> (tensor<2x4xbf16>, tensor<2x4xf32>) {
  %3 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xbf16>, tensor<3x4xi4>) -> tensor<2x4xbf16>
  %4 = "stablehlo.dot_general"(%0, %2) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xbf16>, tensor<3x4xf16>) -> tensor<2x4xf32>
  func.return %3, %4 : tensor<2x4xbf16>, tensor<2x4xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %3 = "stablehlo.convert"(%1){{.*}}-> tensor<3x4xbf16>
// CHECK-NEXT:   %4 = "stablehlo.dot_general"(%0, %3){{.*}}-> tensor<2x4xbf16>
// CHECK-NEXT:   %5 = "stablehlo.convert"(%0){{.*}}-> tensor<2x3xf32>
// CHECK-NEXT:   %6 = "stablehlo.convert"(%2){{.*}}-> tensor<3x4xf32>
// CHECK-NEXT:   %7 = "stablehlo.dot_general"(%5, %6){{.*}}-> tensor<2x4xf32>
// CHECK-NEXT:   func.return %4, %7
