// RUN: %opt -p split-packed-products %s --split-input-file | filecheck %s

// Rows of weights are packed, two of them in a byte: the sum of two products, with the even and with the odd columns of %x.

func.func @rows(%x: tensor<8x64xbf16>, %q: tensor<32x48xui8>) -> tensor<8x48xbf16> {
  %mask = "stablehlo.constant"() <{value = #hlo.literal<"uint8", [], "Dw==">}> : () -> tensor<32x48xui8>
  %four = "stablehlo.constant"() <{value = #hlo.literal<"uint8", [], "BA==">}> : () -> tensor<32x48xui8>
  %l = "stablehlo.and"(%q, %mask) : (tensor<32x48xui8>, tensor<32x48xui8>) -> tensor<32x48xui8>
  %h = "stablehlo.shift_right_logical"(%q, %four) : (tensor<32x48xui8>, tensor<32x48xui8>) -> tensor<32x48xui8>
  %a = "stablehlo.reshape"(%l) : (tensor<32x48xui8>) -> tensor<32x1x48xui8>
  %b = "stablehlo.reshape"(%h) : (tensor<32x48xui8>) -> tensor<32x1x48xui8>
  %c = "stablehlo.concatenate"(%a, %b) <{dimension = 1 : i64}> : (tensor<32x1x48xui8>, tensor<32x1x48xui8>) -> tensor<32x2x48xui8>
  %d = "stablehlo.reshape"(%c) : (tensor<32x2x48xui8>) -> tensor<64x48xui8>
  %w = "stablehlo.convert"(%d) : (tensor<64x48xui8>) -> tensor<64x48xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x48xbf16>) -> tensor<8x48xbf16>
  func.return %y : tensor<8x48xbf16>
}

// CHECK:      func.func @rows(
// CHECK:        %[[L:.*]] = "stablehlo.convert"({{.*}}) : (tensor<32x48xui8>) -> tensor<32x48xbf16>
// CHECK:        %[[H:.*]] = "stablehlo.convert"({{.*}}) : (tensor<32x48xui8>) -> tensor<32x48xbf16>
// CHECK:        %[[X:.*]] = "stablehlo.transpose"({{.*}}) {{.*}}-> tensor<2x8x32x1xbf16>
// CHECK:        %[[A:.*]] = "stablehlo.dot_general"({{.*}}, %[[L]]) {{.*}}-> tensor<8x48xf32>
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.dot_general"({{.*}}, %[[H]]) {{.*}}-> tensor<8x48xf32>
// CHECK-NEXT:   %[[S:.*]] = "stablehlo.add"(%[[A]], %[[B]])
// CHECK-NEXT:   "stablehlo.convert"(%[[S]]) : (tensor<8x48xf32>) -> tensor<8x48xbf16>

// -----

// Bits that a shift takes of bytes repeated along a dimension: columns of the result are those of both products in turn.

func.func @columns(%x: tensor<8x64xf16>, %q: tensor<64x24xui8>) -> tensor<8x48xf16> {
  %mask = "stablehlo.constant"() <{value = #hlo.literal<"uint8", [], "Dw==">}> : () -> tensor<64x24x2xui8>
  %four = "stablehlo.constant"() <{value = #hlo.literal<"uint8", [], "BA==">}> : () -> tensor<64x24x2xui8>
  %r = "stablehlo.broadcast_in_dim"(%q) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<64x24xui8>) -> tensor<64x24x2xui8>
  %i = "stablehlo.iota"() <{iota_dimension = 2 : i64}> : () -> tensor<64x24x2xui8>
  %n = "stablehlo.multiply"(%i, %four) : (tensor<64x24x2xui8>, tensor<64x24x2xui8>) -> tensor<64x24x2xui8>
  %m = "stablehlo.shift_right_logical"(%r, %n) : (tensor<64x24x2xui8>, tensor<64x24x2xui8>) -> tensor<64x24x2xui8>
  %b = "stablehlo.and"(%m, %mask) : (tensor<64x24x2xui8>, tensor<64x24x2xui8>) -> tensor<64x24x2xui8>
  %c = "stablehlo.reshape"(%b) : (tensor<64x24x2xui8>) -> tensor<64x48xui8>
  %w = "stablehlo.convert"(%c) : (tensor<64x48xui8>) -> tensor<64x48xf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xf16>, tensor<64x48xf16>) -> tensor<8x48xf16>
  func.return %y : tensor<8x48xf16>
}

// CHECK:      func.func @columns(%[[X:.*]]: tensor<8x64xf16>,
// CHECK-COUNT-2: "stablehlo.dot_general"(%[[X]], {{.*}}-> tensor<8x24xf32>
// CHECK:        "stablehlo.concatenate"({{.*}}) <{dimension = 2 : i64}> {{.*}}-> tensor<8x24x2x1xf16>

// -----

// Of other bytes, or of bits that are the same, weights stay together.

func.func @stays(%x: tensor<8x64xbf16>, %p: tensor<32x48xui8>, %q: tensor<32x48xui8>) -> tensor<8x48xbf16> {
  %c = "stablehlo.concatenate"(%p, %q) <{dimension = 0 : i64}> : (tensor<32x48xui8>, tensor<32x48xui8>) -> tensor<64x48xui8>
  %w = "stablehlo.convert"(%c) : (tensor<64x48xui8>) -> tensor<64x48xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x48xbf16>) -> tensor<8x48xbf16>
  %d = "stablehlo.concatenate"(%q, %q) <{dimension = 0 : i64}> : (tensor<32x48xui8>, tensor<32x48xui8>) -> tensor<64x48xui8>
  %v = "stablehlo.convert"(%d) : (tensor<64x48xui8>) -> tensor<64x48xbf16>
  %z = "stablehlo.dot_general"(%x, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x64xbf16>, tensor<64x48xbf16>) -> tensor<8x48xbf16>
  %s = "stablehlo.add"(%y, %z) : (tensor<8x48xbf16>, tensor<8x48xbf16>) -> tensor<8x48xbf16>
  func.return %s : tensor<8x48xbf16>
}

// CHECK:      func.func @stays(
// CHECK-COUNT-2: "stablehlo.dot_general"({{.*}} -> tensor<8x48xbf16>
