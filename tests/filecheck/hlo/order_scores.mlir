// RUN: %opt -p order-scores --split-input-file %s | filecheck %s

// Scores of three queries for each key are made in the order in which the second product reads them, and so are their rows' maxima;
// the queries, which are smaller, are transposed.

func.func @main(%q: tensor<2x8x4x3x16xf32>, %k: tensor<2x33x4x16xf32>, %v: tensor<2x33x4x16xf32>) -> tensor<2x4x16x3x8xf32> {
  %0 = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [3]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x8x4x3x16xf32>, tensor<2x33x4x16xf32>) -> tensor<2x4x8x3x33xf32>
  %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 3, 0, 1, 2, 4>}> : (tensor<2x4x8x3x33xf32>) -> tensor<3x2x4x8x33xf32>
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %3 = "stablehlo.reduce"(%1, %2) <{dimensions = array<i64: 4>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = "stablehlo.maximum"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%m) : (tensor<f32>) -> ()
  }) : (tensor<3x2x4x8x33xf32>, tensor<f32>) -> tensor<3x2x4x8xf32>
  %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<3x2x4x8xf32>) -> tensor<3x2x4x8x33xf32>
  %5 = "stablehlo.subtract"(%1, %4) : (tensor<3x2x4x8x33xf32>, tensor<3x2x4x8x33xf32>) -> tensor<3x2x4x8x33xf32>
  %6 = "stablehlo.dot_general"(%v, %5) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [1, 2], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [4]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x33x4x16xf32>, tensor<3x2x4x8x33xf32>) -> tensor<2x4x16x3x8xf32>
  func.return %6 : tensor<2x4x16x3x8xf32>
}

// CHECK:      func.func @main(%q
// CHECK-NEXT:   %[[Q:.*]] = "stablehlo.transpose"(%q) <{permutation = array<i64: 0, 2, 3, 1, 4>}> : (tensor<2x8x4x3x16xf32>) -> tensor<2x4x3x8x16xf32>
// CHECK-NEXT:   %[[S:.*]] = "stablehlo.dot_general"(%[[Q]], %k) {{.*}}lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4]{{.*}} -> tensor<2x4x3x8x33xf32>
// CHECK-NOT:    stablehlo.transpose
// CHECK:        %[[M:.*]] = "stablehlo.reduce"(%[[S]]
// CHECK:        : (tensor<2x4x3x8x33xf32>, tensor<f32>) -> tensor<2x4x3x8xf32>
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.broadcast_in_dim"(%[[M]])
// CHECK-NEXT:   %[[D:.*]] = "stablehlo.subtract"(%[[S]], %[[B]])
// CHECK-NEXT:   "stablehlo.dot_general"(%v, %[[D]]) {{.*}}rhs_batching_dimensions = [0, 1]{{.*}} -> tensor<2x4x16x3x8xf32>
// CHECK-NEXT:   func.return

// -----

// Scores that are returned stay in the order that they have.

func.func @returned(%q: tensor<2x8x4x3x16xf32>, %k: tensor<2x33x4x16xf32>, %v: tensor<2x33x4x16xf32>) -> (tensor<2x4x8x3x33xf32>, tensor<2x4x3x8x16xf32>) {
  %0 = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [3]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x8x4x3x16xf32>, tensor<2x33x4x16xf32>) -> tensor<2x4x8x3x33xf32>
  %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 0, 1, 3, 2, 4>}> : (tensor<2x4x8x3x33xf32>) -> tensor<2x4x3x8x33xf32>
  %2 = "stablehlo.dot_general"(%1, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x4x3x8x33xf32>, tensor<2x33x4x16xf32>) -> tensor<2x4x3x8x16xf32>
  func.return %0, %2 : tensor<2x4x8x3x33xf32>, tensor<2x4x3x8x16xf32>
}

// CHECK:      func.func @returned(%q
// CHECK-NEXT:   %[[S:.*]] = "stablehlo.dot_general"(%q, %k)
// CHECK-NEXT:   %[[T:.*]] = "stablehlo.transpose"(%[[S]])
