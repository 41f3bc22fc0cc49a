// RUN: %opt -p saturate-conversions %s --split-input-file | filecheck %s

// A conversion to bytes keeps what it converts within their range, and nothing is left but to round.

func.func @requantized(%x: tensor<8x32xf32>) -> tensor<8x32xi8> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAww==">}> : () -> tensor<8x32xf32>
  %high = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAD+Qg==">}> : () -> tensor<8x32xf32>
  %r = "stablehlo.round_nearest_even"(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %a = "stablehlo.maximum"(%r, %low) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %b = "stablehlo.minimum"(%high, %a) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = "stablehlo.convert"(%b) : (tensor<8x32xf32>) -> tensor<8x32xi8>
  func.return %c : tensor<8x32xi8>
}

// CHECK:      func.func @requantized(
// CHECK-NOT:    imum
// CHECK:        %[[R:.*]] = "stablehlo.round_nearest_even"(
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.convert"(%[[R]]) : (tensor<8x32xf32>) -> tensor<8x32xi8>
// CHECK-NEXT:   func.return {{.*}}%[[C]]

// -----

// No less than 0: the bound that bytes have not is there before rounding.

func.func @of_relu(%x: tensor<8x32xf32>) -> tensor<8x32xi8> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<8x32xf32>
  %high = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAD+Qg==">}> : () -> tensor<8x32xf32>
  %r = "stablehlo.round_nearest_even"(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %b = "stablehlo.clamp"(%low, %r, %high) : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = "stablehlo.convert"(%b) : (tensor<8x32xf32>) -> tensor<8x32xi8>
  func.return %c : tensor<8x32xi8>
}

// CHECK:      func.func @of_relu(
// CHECK:        %[[M:.*]] = "stablehlo.maximum"(
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.round_nearest_even"(%[[M]])
// CHECK-NEXT:   "stablehlo.convert"(%[[R]])

// -----

// Sums of 32 bits, as floats.

func.func @saturated(%x: tensor<8x32xi32>) -> tensor<8x32xi8> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "gP///w==">}> : () -> tensor<8x32xi32>
  %high = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "fwAAAA==">}> : () -> tensor<8x32xi32>
  %b = "stablehlo.clamp"(%low, %x, %high) : (tensor<8x32xi32>, tensor<8x32xi32>, tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = "stablehlo.convert"(%b) : (tensor<8x32xi32>) -> tensor<8x32xi8>
  func.return %c : tensor<8x32xi8>
}

// CHECK:      func.func @saturated(
// CHECK:        %[[F:.*]] = "stablehlo.convert"({{.*}}) : (tensor<8x32xi32>) -> tensor<8x32xf32>
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.convert"(%[[F]]) : (tensor<8x32xf32>) -> tensor<8x32xi8>
// CHECK-NEXT:   func.return {{.*}}%[[C]]

// -----

// Bytes without a sign: 128 less as ones with a sign.

func.func @unsigned(%x: tensor<8x32xf32>) -> tensor<8x32xui8> {
  %c = "stablehlo.convert"(%x) : (tensor<8x32xf32>) -> tensor<8x32xui8>
  func.return %c : tensor<8x32xui8>
}

// CHECK:      func.func @unsigned(
// CHECK:        %[[I:.*]] = "stablehlo.convert"({{.*}}) : (tensor<8x32xf32>) -> tensor<8x32xi32>
// CHECK:        %[[F:.*]] = "stablehlo.convert"(%[[I]]) : (tensor<8x32xi32>) -> tensor<8x32xf32>
// CHECK:        %[[S:.*]] = "stablehlo.subtract"(%[[F]],
// CHECK:        %[[B:.*]] = "stablehlo.convert"(%[[S]]) : (tensor<8x32xf32>) -> tensor<8x32xi8>
// CHECK:        %[[X:.*]] = "stablehlo.xor"(%[[B]],
// CHECK:        "stablehlo.bitcast_convert"(%[[X]]) : (tensor<8x32xi8>) -> tensor<8x32xui8>

// -----

// A bound that is narrower than what is converted to is kept, and so is one that is no integer.

func.func @half(%x: tensor<8x32xf32>) -> tensor<8x32xi8> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAPw==">}> : () -> tensor<8x32xf32>
  %r = "stablehlo.round_nearest_even"(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %a = "stablehlo.maximum"(%r, %low) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = "stablehlo.convert"(%a) : (tensor<8x32xf32>) -> tensor<8x32xi8>
  func.return %c : tensor<8x32xi8>
}

// CHECK:      func.func @half(
// CHECK:        %[[R:.*]] = "stablehlo.round_nearest_even"(
// CHECK:        %[[M:.*]] = "stablehlo.maximum"(%[[R]],
// CHECK-NEXT:   "stablehlo.convert"(%[[M]])
