// No operand of the transpose has an element, so it cannot be emitted.
module @empty_select {
  func.func public @main(%x: tensor<0x2x8xi32>) -> tensor<8x0x2xi32> {
    %0 = stablehlo.negate %x : tensor<0x2x8xi32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<0x2x8xi32>) -> tensor<8x0x2xi32>
    %2 = stablehlo.compare GE, %1, %1 : (tensor<8x0x2xi32>, tensor<8x0x2xi32>) -> tensor<8x0x2xi1>
    %3 = stablehlo.select %2, %1, %1 : tensor<8x0x2xi1>, tensor<8x0x2xi32>
    return %3 : tensor<8x0x2xi32>
  }
}
