// RUN: %opt -p integers-in-floats %s --split-input-file | filecheck %s

// Bytes less a zero point, as integers: floats hold all of that. Without a sign they are 128 more than with one, and so are zero points.

func.func @zero_points(%q: tensor<64x32xui8>, %z: tensor<32xui8>) -> tensor<64x32xf32> {
  %a = "stablehlo.convert"(%q) : (tensor<64x32xui8>) -> tensor<64x32xi32>
  %b = "stablehlo.convert"(%z) : (tensor<32xui8>) -> tensor<32xi32>
  %c = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xi32>) -> tensor<64x32xi32>
  %d = "stablehlo.subtract"(%a, %c) : (tensor<64x32xi32>, tensor<64x32xi32>) -> tensor<64x32xi32>
  %e = "stablehlo.convert"(%d) : (tensor<64x32xi32>) -> tensor<64x32xf32>
  func.return %e : tensor<64x32xf32>
}

// CHECK:      func.func @zero_points(
// CHECK-NOT:    i32
// CHECK:        %[[Q:.*]] = "stablehlo.convert"({{.*}}) : (tensor<64x32xi8>) -> tensor<64x32xf32>
// CHECK:        %[[Z:.*]] = "stablehlo.convert"({{.*}}) : (tensor<32xi8>) -> tensor<32xf32>
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.broadcast_in_dim"(%[[Z]])
// CHECK-NEXT:   %[[Y:.*]] = "stablehlo.subtract"(%[[Q]], %[[R]])
// CHECK-NEXT:   func.return {{.*}}%[[Y]]

// -----

// Four bits, moved: 16 times as much, less what the bit of the sign counts. The zero point of 8 is half of them.

func.func @upper(%q: tensor<64x32xui8>) -> tensor<64x32xbf16> {
  %four = "stablehlo.constant"() <{value = #hlo.literal<"uint8", [], "BA==">}> : () -> tensor<64x32xui8>
  %eight = "stablehlo.constant"() <{value = #hlo.literal<"int8", [], "CA==">}> : () -> tensor<64x32xi8>
  %a = "stablehlo.shift_right_logical"(%q, %four) : (tensor<64x32xui8>, tensor<64x32xui8>) -> tensor<64x32xui8>
  %b = "stablehlo.convert"(%a) : (tensor<64x32xui8>) -> tensor<64x32xi8>
  %c = "stablehlo.subtract"(%b, %eight) : (tensor<64x32xi8>, tensor<64x32xi8>) -> tensor<64x32xi8>
  %d = "stablehlo.convert"(%c) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
  func.return %d : tensor<64x32xbf16>
}

// CHECK:      func.func @upper(
// CHECK:        %[[A:.*]] = "stablehlo.and"(
// CHECK:        %[[X:.*]] = "stablehlo.xor"(%[[A]], {{.*}})
// CHECK:        %[[B:.*]] = "stablehlo.bitcast_convert"(%[[X]])
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.convert"(%[[B]]) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
// CHECK:        %[[Y:.*]] = "stablehlo.multiply"(%[[C]], {{.*}})
// CHECK-NEXT:   func.return {{.*}}%[[Y]]

// -----

// A product of a number of 16 bits and of another one, rounded to these, is theirs.

func.func @rounded(%q: tensor<64x32xi8>, %s: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  %a = "stablehlo.convert"(%q) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  %b = "stablehlo.convert"(%s) : (tensor<64x32xbf16>) -> tensor<64x32xf32>
  %c = "stablehlo.multiply"(%a, %b) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %d = "stablehlo.convert"(%c) : (tensor<64x32xf32>) -> tensor<64x32xbf16>
  func.return %d : tensor<64x32xbf16>
}

// CHECK:      func.func @rounded(%[[Q:.*]]: tensor<64x32xi8>, %[[S:.*]]: tensor
// CHECK-NEXT:   %[[A:.*]] = "stablehlo.convert"(%[[Q]]) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
// CHECK-NEXT:   %[[Y:.*]] = "stablehlo.multiply"(%[[A]], %[[S]])
// CHECK-NEXT:   func.return {{.*}}%[[Y]]

// -----

// Integers of 32 bits may be more than floats hold, and bytes may wrap: both stay.

func.func @stays(%q: tensor<64x32xi32>, %b: tensor<64x32xi8>) -> (tensor<64x32xf32>, tensor<64x32xbf16>) {
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<64x32xi32>
  %a = "stablehlo.subtract"(%q, %one) : (tensor<64x32xi32>, tensor<64x32xi32>) -> tensor<64x32xi32>
  %c = "stablehlo.convert"(%a) : (tensor<64x32xi32>) -> tensor<64x32xf32>
  %d = "stablehlo.add"(%b, %b) : (tensor<64x32xi8>, tensor<64x32xi8>) -> tensor<64x32xi8>
  %e = "stablehlo.convert"(%d) : (tensor<64x32xi8>) -> tensor<64x32xbf16>
  func.return %c, %e : tensor<64x32xf32>, tensor<64x32xbf16>
}

// CHECK:      func.func @stays(
// CHECK:        "stablehlo.subtract"({{.*}}) : (tensor<64x32xi32>, tensor<64x32xi32>)
// CHECK:        "stablehlo.add"({{.*}}) : (tensor<64x32xi8>, tensor<64x32xi8>)
