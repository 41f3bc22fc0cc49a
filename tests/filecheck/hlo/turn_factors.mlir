// RUN: %opt -p turn-factors %s --split-input-file | filecheck %s

// Factors of groups along what is added up, which comes last: groups first.

func.func @groups(%x: tensor<8x256xbf16>, %q: tensor<96x256xi8>, %s: tensor<96x4xbf16>) -> tensor<8x96xbf16> {
  %a = "stablehlo.convert"(%q) : (tensor<96x256xi8>) -> tensor<96x256xbf16>
  %b = "stablehlo.reshape"(%a) : (tensor<96x256xbf16>) -> tensor<96x4x64xbf16>
  %r = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<96x4xbf16>) -> tensor<96x4x64xbf16>
  %c = "stablehlo.multiply"(%b, %r) : (tensor<96x4x64xbf16>, tensor<96x4x64xbf16>) -> tensor<96x4x64xbf16>
  %w = "stablehlo.reshape"(%c) : (tensor<96x4x64xbf16>) -> tensor<96x256xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">}> : (tensor<8x256xbf16>, tensor<96x256xbf16>) -> tensor<8x96xbf16>
  func.return %y : tensor<8x96xbf16>
}

// CHECK:      func.func @groups(%{{.*}}, %[[S:.*]]: tensor<96x4xbf16>)
// CHECK:        %[[T:.*]] = "stablehlo.transpose"(%[[S]]) {{.*}}-> tensor<4x96xbf16>
// CHECK-NEXT:   "stablehlo.broadcast_in_dim"(%[[T]]) <{broadcast_dimensions = array<i64: 1, 0>}> : (tensor<4x96xbf16>) -> tensor<96x4x64xbf16>

// -----

// Groups along what comes first lie by groups already.

func.func @stays(%x: tensor<8x256xbf16>, %q: tensor<256x96xi8>, %s: tensor<4x96xbf16>) -> tensor<8x96xbf16> {
  %a = "stablehlo.convert"(%q) : (tensor<256x96xi8>) -> tensor<256x96xbf16>
  %b = "stablehlo.reshape"(%a) : (tensor<256x96xbf16>) -> tensor<4x64x96xbf16>
  %r = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<4x96xbf16>) -> tensor<4x64x96xbf16>
  %c = "stablehlo.multiply"(%b, %r) : (tensor<4x64x96xbf16>, tensor<4x64x96xbf16>) -> tensor<4x64x96xbf16>
  %w = "stablehlo.reshape"(%c) : (tensor<4x64x96xbf16>) -> tensor<256x96xbf16>
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x256xbf16>, tensor<256x96xbf16>) -> tensor<8x96xbf16>
  func.return %y : tensor<8x96xbf16>
}

// CHECK:      func.func @stays(
// CHECK-NOT:    transpose
// CHECK:        return
