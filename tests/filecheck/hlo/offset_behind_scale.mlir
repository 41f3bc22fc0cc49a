// RUN: %opt -p offset-behind-scale %s --split-input-file | filecheck %s

// What is subtracted before a product is scaled is scaled by itself, and goes to what is added behind.

func.func @norm(%x: tensor<8x16xbf16>, %w: tensor<16x32xbf16>, %mean: tensor<32xbf16>, %scale: tensor<32xbf16>, %offset: tensor<32xbf16>) -> tensor<8x32xbf16> {
  %y = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16>
  %ms = "stablehlo.broadcast_in_dim"(%mean) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xbf16>) -> tensor<8x32xbf16>
  %d = "stablehlo.subtract"(%y, %ms) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %ss = "stablehlo.broadcast_in_dim"(%scale) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xbf16>) -> tensor<8x32xbf16>
  %p = "stablehlo.multiply"(%ss, %d) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %os = "stablehlo.broadcast_in_dim"(%offset) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xbf16>) -> tensor<8x32xbf16>
  %r = "stablehlo.add"(%p, %os) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  func.return %r : tensor<8x32xbf16>
}

// CHECK-LABEL: func.func @norm
// CHECK:         [[Y:%[0-9a-z]+]] = "stablehlo.dot_general"(%x, %w)
// CHECK:         [[SS:%[0-9a-z]+]] = "stablehlo.broadcast_in_dim"(%scale)
// CHECK:         [[M:%[0-9a-z]+]] = "stablehlo.multiply"(%mean, %scale)
// CHECK-NEXT:    [[T:%[0-9a-z]+]] = "stablehlo.subtract"(%offset, [[M]])
// CHECK-NEXT:    [[P:%[0-9a-z]+]] = "stablehlo.multiply"([[Y]], [[SS]])
// CHECK-NEXT:    [[TS:%[0-9a-z]+]] = "stablehlo.broadcast_in_dim"([[T]])
// CHECK-NEXT:    [[R:%[0-9a-z]+]] = "stablehlo.add"([[P]], [[TS]])
// CHECK-NEXT:    func.return [[R]]

// -----

// Of what is no product a difference may be exact, and stays; so does one that others read.

func.func @exact(%y: tensor<8x32xbf16>, %mean: tensor<32xbf16>, %scale: tensor<32xbf16>, %offset: tensor<32xbf16>) -> tensor<8x32xbf16> {
  %ms = "stablehlo.broadcast_in_dim"(%mean) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xbf16>) -> tensor<8x32xbf16>
  %d = "stablehlo.subtract"(%y, %ms) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %ss = "stablehlo.broadcast_in_dim"(%scale) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xbf16>) -> tensor<8x32xbf16>
  %p = "stablehlo.multiply"(%d, %ss) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %os = "stablehlo.broadcast_in_dim"(%offset) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xbf16>) -> tensor<8x32xbf16>
  %r = "stablehlo.add"(%p, %os) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  func.return %r : tensor<8x32xbf16>
}

// CHECK-LABEL: func.func @exact
// CHECK:         [[D:%[0-9a-z]+]] = "stablehlo.subtract"(%y
// CHECK:         "stablehlo.multiply"([[D]]
