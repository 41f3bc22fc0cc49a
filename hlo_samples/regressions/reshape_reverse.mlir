// The index of the gather divides a negative number.
module @reshape_reverse {
  func.func public @main(%x: tensor<8x5x7x1x8xi8>) -> tensor<20x112xi8> {
    %0 = stablehlo.reshape %x : (tensor<8x5x7x1x8xi8>) -> tensor<20x112xi8>
    %1 = stablehlo.reverse %0, dims = [0, 1] : tensor<20x112xi8>
    return %1 : tensor<20x112xi8>
  }
}
