// RUN: %opt -p scale-behind-products %s --split-input-file | filecheck %s

// A factor per column of the weights, also one that is multiplied before the weights are rounded, comes behind the product.

func.func @columns(%x: tensor<8x64xbf16>, %q: tensor<64x32xi8>, %s: tensor<1x32xf32>) -> tensor<8x32xbf16> {
  %a = "stablehlo.convert"(%q) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  %b = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x32xf32>) -> tensor<64x32xf32>
  %c = "stablehlo.multiply"(%b, %a) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %w = "stablehlo.convert"(%c) : (tensor<64x32xf32>) -> tensor<64x32xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xbf16>
  func.return %y : tensor<8x32xbf16>
}

// CHECK:      func.func @columns(
// CHECK:        %[[S:.*]] = "stablehlo.broadcast_in_dim"(%{{.*}}) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xf32>) -> tensor<8x32xf32>
// CHECK:        %[[W:.*]] = "stablehlo.convert"({{.*}}) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
// CHECK:        %[[P:.*]] = "stablehlo.dot_general"(%{{.*}}, %[[W]]) {{.*}}-> tensor<8x32xf32>
// CHECK-NEXT:   %[[Y:.*]] = "stablehlo.multiply"(%[[P]], %[[S]])
// CHECK-NEXT:   "stablehlo.convert"(%[[Y]]) : (tensor<8x32xf32>) -> tensor<8x32xbf16>

// -----

// One per row is the other operand's.

func.func @rows(%x: tensor<8x64xbf16>, %q: tensor<64x32xi8>, %s: tensor<64xbf16>) -> tensor<8x32xbf16> {
  %a = "stablehlo.convert"(%q) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
  %b = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0>}> : (tensor<64xbf16>) -> tensor<64x32xbf16>
  %w = "stablehlo.multiply"(%a, %b) : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xbf16>
  func.return %y : tensor<8x32xbf16>
}

// CHECK:      func.func @rows(
// CHECK:        %[[X:.*]] = "stablehlo.multiply"({{.*}}) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT:   %[[Z:.*]] = "stablehlo.convert"(%[[X]]) : (tensor<8x64xf32>) -> tensor<8x64xbf16>
// CHECK:        "stablehlo.dot_general"(%[[Z]], {{.*}}-> tensor<8x32xbf16>

// -----

// Factors of rows and columns, weights that somebody else reads, and numbers that bf16 does not have stay.

func.func @others(%x: tensor<8x64xbf16>, %q: tensor<64x32xi8>, %r: tensor<64x32xi16>, %s: tensor<64x32xbf16>, %t: tensor<32xbf16>) -> (tensor<8x32xbf16>, tensor<8x32xbf16>) {
  %a = "stablehlo.convert"(%q) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
  %v = "stablehlo.multiply"(%a, %s) : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %y = "stablehlo.dot_general"(%x, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xbf16>
  %b = "stablehlo.convert"(%r) : (tensor<64x32xi16>) -> tensor<64x32xbf16>
  %c = "stablehlo.broadcast_in_dim"(%t) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xbf16>) -> tensor<64x32xbf16>
  %w = "stablehlo.multiply"(%b, %c) : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %z = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xbf16>
  func.return %y, %z : tensor<8x32xbf16>, tensor<8x32xbf16>
}

// CHECK:      func.func @others(
// CHECK:        %[[V:.*]] = "stablehlo.multiply"({{.*}}tensor<64x32xbf16>
// CHECK:        "stablehlo.dot_general"(%{{.*}}, %[[V]])
// CHECK:        %[[W:.*]] = "stablehlo.multiply"({{.*}}tensor<64x32xbf16>
// CHECK:        "stablehlo.dot_general"(%{{.*}}, %[[W]])

// -----

// Differences of integers are numbers that the type has: a factor per column comes behind them too.

func.func @less_zero_points(%x: tensor<8x64xbf16>, %q: tensor<64x32xi8>, %z: tensor<32xi8>, %s: tensor<32xf32>) -> tensor<8x32xbf16> {
  %a = "stablehlo.convert"(%q) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  %n = "stablehlo.convert"(%z) : (tensor<32xi8>) -> tensor<32xf32>
  %m = "stablehlo.broadcast_in_dim"(%n) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xf32>) -> tensor<64x32xf32>
  %d = "stablehlo.subtract"(%a, %m) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %b = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xf32>) -> tensor<64x32xf32>
  %c = "stablehlo.multiply"(%d, %b) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %w = "stablehlo.convert"(%c) : (tensor<64x32xf32>) -> tensor<64x32xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xbf16>
  func.return %y : tensor<8x32xbf16>
}

// CHECK:      func.func @less_zero_points(
// CHECK:        %[[W:.*]] = "stablehlo.subtract"({{.*}}) : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
// CHECK:        %[[P:.*]] = "stablehlo.dot_general"(%{{.*}}, %[[W]]) {{.*}}-> tensor<8x32xf32>
// CHECK-NEXT:   "stablehlo.multiply"(%[[P]],

// -----

// A power of two by which bits are multiplied, with factors of groups around it.

func.func @halved(%x: tensor<8x64xbf16>, %q: tensor<64x32xi8>, %s: tensor<2x32xbf16>) -> tensor<8x32xbf16> {
  %h = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "gD0=">}> : () -> tensor<64x32xbf16>
  %a = "stablehlo.convert"(%q) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
  %b = "stablehlo.multiply"(%a, %h) : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %c = "stablehlo.reshape"(%b) : (tensor<64x32xbf16>) -> tensor<2x32x32xbf16>
  %r = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<2x32xbf16>) -> tensor<2x32x32xbf16>
  %d = "stablehlo.multiply"(%c, %r) : (tensor<2x32x32xbf16>, tensor<2x32x32xbf16>) -> tensor<2x32x32xbf16>
  %w = "stablehlo.reshape"(%d) : (tensor<2x32x32xbf16>) -> tensor<64x32xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xbf16>
  func.return %y : tensor<8x32xbf16>
}

// CHECK:      func.func @halved(
// CHECK-NEXT:   %[[A:.*]] = "stablehlo.convert"
// CHECK-NEXT:   "stablehlo.reshape"(%[[A]])
// CHECK:        %[[P:.*]] = "stablehlo.dot_general"({{.*}}-> tensor<8x32xf32>
// CHECK:        "stablehlo.multiply"(%[[P]],
