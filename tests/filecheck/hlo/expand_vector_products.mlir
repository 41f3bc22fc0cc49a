// RUN: %opt -p expand-vector-products %s --split-input-file | filecheck %s

// Multiplied and added up.

func.func @main(%0: tensor<70xi32>, %1: tensor<70xi32>) -> tensor<i32> {
  %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">}> : (tensor<70xi32>, tensor<70xi32>) -> tensor<i32>
  func.return %2 : tensor<i32>
}

// CHECK:      func.func @main(
// CHECK:        "hlo.fusion"
// CHECK:          "stablehlo.multiply"{{.*}}-> tensor<70xi32>
// CHECK:          "stablehlo.reduce"
// CHECK-NOT:  "stablehlo.dot_general"
// CHECK:      }

// -----

// Truth values, with a batch: any term is true.

func.func @main(%0: tensor<2x3x5xi1>, %1: tensor<2x5x4xi1>) -> tensor<2x3x4xi1> {
  %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>">}> : (tensor<2x3x5xi1>, tensor<2x5x4xi1>) -> tensor<2x3x4xi1>
  func.return %2 : tensor<2x3x4xi1>
}

// CHECK:      func.func @main(
// CHECK:        "hlo.fusion"
// CHECK:          "stablehlo.and"{{.*}}-> tensor<2x3x5x4xi1>
// CHECK:          "stablehlo.reduce"
// CHECK:            "stablehlo.or"
// CHECK-NOT:  "stablehlo.dot_general"
// CHECK:      }

// -----

// The matrix engine multiplies it: it stays.

func.func @main(%0: tensor<70xf32>, %1: tensor<70xf32>) -> tensor<f32> {
  %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">}> : (tensor<70xf32>, tensor<70xf32>) -> tensor<f32>
  func.return %2 : tensor<f32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.dot_general"
