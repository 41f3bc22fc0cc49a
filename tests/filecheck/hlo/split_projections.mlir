// RUN: %opt -p split-projections %s | filecheck %s

// Queries, keys and values are columns of one product with a bias: each is a product with its part of the weights, without the
// dimension that said which it is.
func.func @main(%x: tensor<2x16x32xf32>, %w: tensor<32x96xf32>, %b: tensor<96xf32>) -> tensor<2x4x16x8xf32> {
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>">}> : (tensor<2x16x32xf32>, tensor<32x96xf32>) -> tensor<2x16x96xf32>
  %row = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 2>}> : (tensor<96xf32>) -> tensor<1x1x96xf32>
  %rows = "stablehlo.broadcast_in_dim"(%row) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x96xf32>) -> tensor<2x16x96xf32>
  %a = "stablehlo.add"(%y, %rows) : (tensor<2x16x96xf32>, tensor<2x16x96xf32>) -> tensor<2x16x96xf32>
  %h = "stablehlo.reshape"(%a) : (tensor<2x16x96xf32>) -> tensor<2x16x3x4x8xf32>
  %t = "stablehlo.transpose"(%h) <{permutation = array<i64: 2, 0, 3, 1, 4>}> : (tensor<2x16x3x4x8xf32>) -> tensor<3x2x4x16x8xf32>
  %q1 = "stablehlo.slice"(%t) <{start_indices = array<i64: 0, 0, 0, 0, 0>, limit_indices = array<i64: 1, 2, 4, 16, 8>, strides = array<i64: 1, 1, 1, 1, 1>}> : (tensor<3x2x4x16x8xf32>) -> tensor<1x2x4x16x8xf32>
  %k1 = "stablehlo.slice"(%t) <{start_indices = array<i64: 1, 0, 0, 0, 0>, limit_indices = array<i64: 2, 2, 4, 16, 8>, strides = array<i64: 1, 1, 1, 1, 1>}> : (tensor<3x2x4x16x8xf32>) -> tensor<1x2x4x16x8xf32>
  %v1 = "stablehlo.slice"(%t) <{start_indices = array<i64: 2, 0, 0, 0, 0>, limit_indices = array<i64: 3, 2, 4, 16, 8>, strides = array<i64: 1, 1, 1, 1, 1>}> : (tensor<3x2x4x16x8xf32>) -> tensor<1x2x4x16x8xf32>
  %q = "stablehlo.reshape"(%q1) : (tensor<1x2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %k = "stablehlo.reshape"(%k1) : (tensor<1x2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %v = "stablehlo.reshape"(%v1) : (tensor<1x2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>">}> : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %o = "stablehlo.dot_general"(%s, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>">}> : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  func.return %o : tensor<2x4x16x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      %[[W:.*]] = "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 32, 32>,
// CHECK-NEXT: %[[P:.*]] = "stablehlo.dot_general"(%x, %[[W]]) {{.*}} -> tensor<2x16x32xf32>
// CHECK-NEXT: %[[B:.*]] = "stablehlo.slice"(%b) <{start_indices = array<i64: 0>, limit_indices = array<i64: 32>,
// CHECK:      %[[A:.*]] = "stablehlo.add"(%[[P]],
// CHECK-NEXT: %[[H:.*]] = "stablehlo.reshape"(%[[A]]) {{.*}} -> tensor<2x16x4x8xf32>
// CHECK-NEXT: "stablehlo.transpose"(%[[H]]) <{permutation = array<i64: 0, 2, 1, 3>}> {{.*}} -> tensor<2x4x16x8xf32>
// CHECK:      "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 32>, limit_indices = array<i64: 32, 64>,
// CHECK:      "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 64>, limit_indices = array<i64: 32, 96>,
// CHECK-NOT:  tensor<2x16x96xf32>
// CHECK:      func.return

// Unequal parts, as of queries in groups; weights of another type, with their columns first.
func.func @grouped(%x: tensor<16x32xf32>, %w: tensor<64x32xbf16>) -> tensor<4x16x16xf32> {
  %c = "stablehlo.convert"(%w) : (tensor<64x32xbf16>) -> tensor<64x32xf32>
  %y = "stablehlo.dot_general"(%x, %c) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">}> : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  %q = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 16, 32>, strides = array<i64: 1, 1>}> : (tensor<16x64xf32>) -> tensor<16x32xf32>
  %k = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 32>, limit_indices = array<i64: 16, 40>, strides = array<i64: 1, 1>}> : (tensor<16x64xf32>) -> tensor<16x8xf32>
  %heads = "stablehlo.reshape"(%q) : (tensor<16x32xf32>) -> tensor<16x4x8xf32>
  %wide = "stablehlo.broadcast_in_dim"(%k) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<16x8xf32>) -> tensor<16x4x8xf32>
  %s = "stablehlo.dot_general"(%heads, %wide) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">}> : (tensor<16x4x8xf32>, tensor<16x4x8xf32>) -> tensor<4x16x16xf32>
  func.return %s : tensor<4x16x16xf32>
}
// CHECK-LABEL: func.func @grouped
// CHECK:      "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 32, 32>,
// CHECK-NEXT: "stablehlo.convert"
// CHECK-NEXT: "stablehlo.dot_general"(%x, {{.*}} -> tensor<16x32xf32>
// CHECK:      "stablehlo.slice"(%w) <{start_indices = array<i64: 32, 0>, limit_indices = array<i64: 40, 32>,
// CHECK:      "stablehlo.dot_general"(%x, {{.*}} -> tensor<16x8xf32>

// No scores are made of the parts: products without batches alone read them.
func.func @others(%x: tensor<16x32xf32>, %w: tensor<32x64xf32>) -> (tensor<16x32xf32>, tensor<32x32xf32>) {
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %a = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 16, 32>, strides = array<i64: 1, 1>}> : (tensor<16x64xf32>) -> tensor<16x32xf32>
  %b = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 32>, limit_indices = array<i64: 16, 64>, strides = array<i64: 1, 1>}> : (tensor<16x64xf32>) -> tensor<16x32xf32>
  %m = "stablehlo.multiply"(%a, %b) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  %z = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">}> : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
  func.return %m, %z : tensor<16x32xf32>, tensor<32x32xf32>
}
// CHECK-LABEL: func.func @others
// CHECK:      "stablehlo.dot_general"(%x, %w) {{.*}} -> tensor<16x64xf32>

// Each head has its queries, keys and values beside each other: a product has columns of all heads, and elements of the bias.
func.func @parts_of_heads(%x: tensor<2x16x32xf32>, %w: tensor<32x96xf32>, %b: tensor<96xf32>) -> tensor<2x4x16x8xf32> {
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>">}> : (tensor<2x16x32xf32>, tensor<32x96xf32>) -> tensor<2x16x96xf32>
  %row = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 2>}> : (tensor<96xf32>) -> tensor<1x1x96xf32>
  %rows = "stablehlo.broadcast_in_dim"(%row) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x96xf32>) -> tensor<2x16x96xf32>
  %a = "stablehlo.add"(%y, %rows) : (tensor<2x16x96xf32>, tensor<2x16x96xf32>) -> tensor<2x16x96xf32>
  %h = "stablehlo.reshape"(%a) : (tensor<2x16x96xf32>) -> tensor<2x16x4x3x8xf32>
  %t = "stablehlo.transpose"(%h) <{permutation = array<i64: 3, 0, 2, 1, 4>}> : (tensor<2x16x4x3x8xf32>) -> tensor<3x2x4x16x8xf32>
  %q1 = "stablehlo.slice"(%t) <{start_indices = array<i64: 0, 0, 0, 0, 0>, limit_indices = array<i64: 1, 2, 4, 16, 8>, strides = array<i64: 1, 1, 1, 1, 1>}> : (tensor<3x2x4x16x8xf32>) -> tensor<1x2x4x16x8xf32>
  %k1 = "stablehlo.slice"(%t) <{start_indices = array<i64: 1, 0, 0, 0, 0>, limit_indices = array<i64: 2, 2, 4, 16, 8>, strides = array<i64: 1, 1, 1, 1, 1>}> : (tensor<3x2x4x16x8xf32>) -> tensor<1x2x4x16x8xf32>
  %v1 = "stablehlo.slice"(%t) <{start_indices = array<i64: 2, 0, 0, 0, 0>, limit_indices = array<i64: 3, 2, 4, 16, 8>, strides = array<i64: 1, 1, 1, 1, 1>}> : (tensor<3x2x4x16x8xf32>) -> tensor<1x2x4x16x8xf32>
  %q = "stablehlo.reshape"(%q1) : (tensor<1x2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %k = "stablehlo.reshape"(%k1) : (tensor<1x2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %v = "stablehlo.reshape"(%v1) : (tensor<1x2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>">}> : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %o = "stablehlo.dot_general"(%s, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>">}> : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  func.return %o : tensor<2x4x16x8xf32>
}
// CHECK-LABEL: func.func @parts_of_heads
// CHECK:      %[[S:.*]] = "stablehlo.reshape"(%w) {{.*}} -> tensor<32x4x24xf32>
// CHECK-NEXT: %[[C:.*]] = "stablehlo.slice"(%[[S]]) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 32, 4, 8>,
// CHECK-NEXT: %[[W:.*]] = "stablehlo.reshape"(%[[C]]) {{.*}} -> tensor<32x32xf32>
// CHECK-NEXT: %[[P:.*]] = "stablehlo.dot_general"(%x, %[[W]]) {{.*}} -> tensor<2x16x32xf32>
// CHECK:      "stablehlo.slice"{{.*}} <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 4, 8>,
// CHECK:      %[[A:.*]] = "stablehlo.add"(%[[P]],
// CHECK-NEXT: %[[H:.*]] = "stablehlo.reshape"(%[[A]]) {{.*}} -> tensor<2x16x4x8xf32>
// CHECK-NEXT: "stablehlo.transpose"(%[[H]]) <{permutation = array<i64: 0, 2, 1, 3>}> {{.*}} -> tensor<2x4x16x8xf32>
// CHECK:      "stablehlo.slice"{{.*}} <{start_indices = array<i64: 0, 0, 8>, limit_indices = array<i64: 32, 4, 16>,
// CHECK:      "stablehlo.slice"{{.*}} <{start_indices = array<i64: 0, 0, 16>, limit_indices = array<i64: 32, 4, 24>,

// Halves of queries that are rotated are one operand of the scores: what is made of both together.
func.func @rotated(%x: tensor<16x32xf32>, %w: tensor<32x64xf32>, %k: tensor<8x16x8xf32>) -> tensor<8x16x16xf32> {
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %h = "stablehlo.reshape"(%y) : (tensor<16x64xf32>) -> tensor<16x8x8xf32>
  %a = "stablehlo.slice"(%h) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 16, 8, 4>, strides = array<i64: 1, 1, 1>}> : (tensor<16x8x8xf32>) -> tensor<16x8x4xf32>
  %b = "stablehlo.slice"(%h) <{start_indices = array<i64: 0, 0, 4>, limit_indices = array<i64: 16, 8, 8>, strides = array<i64: 1, 1, 1>}> : (tensor<16x8x8xf32>) -> tensor<16x8x4xf32>
  %n = "stablehlo.negate"(%b) : (tensor<16x8x4xf32>) -> tensor<16x8x4xf32>
  %r = "stablehlo.concatenate"(%n, %a) <{dimension = 2 : i64}> : (tensor<16x8x4xf32>, tensor<16x8x4xf32>) -> tensor<16x8x8xf32>
  %s = "stablehlo.dot_general"(%r, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">}> : (tensor<16x8x8xf32>, tensor<8x16x8xf32>) -> tensor<8x16x16xf32>
  func.return %s : tensor<8x16x16xf32>
}
// CHECK-LABEL: func.func @rotated
// CHECK:      "stablehlo.dot_general"(%x, %w) {{.*}} -> tensor<16x64xf32>
