// RUN: %opt -p expand-integer-products %s --split-input-file | filecheck %s

// u8 as i8 with the sign turned over; the other operand's sums make up for that.

func.func @main(%0: tensor<40x30xui8>, %1: tensor<30x50xi8>) -> tensor<40x50xi32> {
  %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<40x30xui8>, tensor<30x50xi8>) -> tensor<40x50xi32>
  func.return %2 : tensor<40x50xi32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.convert"(%0){{.*}}-> tensor<40x30xi8>
// CHECK:        %4 = "stablehlo.xor"(%2, %3)
// CHECK:        %6 = "stablehlo.dot_general"(%4, %1){{.*}}-> tensor<40x50xi32>
// CHECK:        %8 = "stablehlo.dot_general"(%7, %1){{.*}}: (tensor<30xi8>, tensor<30x50xi8>) -> tensor<50xi32>
// CHECK:        %10 = "stablehlo.multiply"(%8, %9)
// CHECK:        %12 = "stablehlo.add"(%6, %11)
// CHECK-NEXT:   func.return %12

// -----

// Two digits of the left, one of the right; the result wraps at 16 bits.

func.func @main(%0: tensor<64x64xi16>, %1: tensor<64x64xi8>) -> tensor<64x64xi16> {
  %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<64x64xi16>, tensor<64x64xi8>) -> tensor<64x64xi16>
  func.return %2 : tensor<64x64xi16>
}

// CHECK:      func.func @main(
// CHECK:        "stablehlo.add"{{.*}}-> tensor<64x64xi32>
// CHECK:        "stablehlo.dot_general"{{.*}}: (tensor<64x64xi8>, tensor<64x64xi8>) -> tensor<64x64xi32>
// CHECK:        "stablehlo.dot_general"{{.*}}: (tensor<64x64xi8>, tensor<64x64xi8>) -> tensor<64x64xi32>
// CHECK:        "stablehlo.shift_left"
// CHECK-NEXT:   "stablehlo.add"
// CHECK-NEXT:   "stablehlo.convert"{{.*}}-> tensor<64x64xi16>

// -----

// Few terms: it stays.

func.func @main(%0: tensor<70xi32>, %1: tensor<70xi32>) -> tensor<i32> {
  %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">}> : (tensor<70xi32>, tensor<70xi32>) -> tensor<i32>
  func.return %2 : tensor<i32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.dot_general"

// -----

// Sums of bytes that are bytes again: the engine's are of 32 bits, what is left of them is a conversion behind it.

func.func @main(%0: tensor<64x64xi8>, %1: tensor<64x64xi8>) -> tensor<64x64xi8> {
  %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<64x64xi8>, tensor<64x64xi8>) -> tensor<64x64xi8>
  func.return %2 : tensor<64x64xi8>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[S:.*]] = "stablehlo.dot_general"(%0, %1){{.*}}-> tensor<64x64xi32>
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.convert"(%[[S]]) : (tensor<64x64xi32>) -> tensor<64x64xi8>
// CHECK-NEXT:   func.return {{.*}}%[[B]]
