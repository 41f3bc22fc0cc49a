// The offset of the store came out as x mod 8 + (x floordiv 8) mod 2 * 8 + x floordiv 16 * 16 with three different forms of x.
module @reverse_inner_dims {
  func.func public @main(%x: tensor<8x7x2x8x1x5xi32>) -> tensor<8x7x2x8x1x5xi32> {
    %0 = stablehlo.reverse %x, dims = [1, 2, 3, 4] : tensor<8x7x2x8x1x5xi32>
    return %0 : tensor<8x7x2x8x1x5xi32>
  }
}
