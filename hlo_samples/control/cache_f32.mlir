// A decoder's cache: each turn writes a row of it, in place, and reads all rows. The row is the turn's number.
module @cache {
  func.func @main(%x: tensor<16xf32>, %w: tensor<16x16xf32>) -> (tensor<16xf32>, tensor<8x16xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %nothing = stablehlo.constant dense<0.0> : tensor<f32>
    %empty = stablehlo.broadcast_in_dim %nothing, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %r:3 = stablehlo.while(%i = %zero, %v = %x, %cache = %empty) : tensor<i32>, tensor<16xf32>, tensor<8x16xf32>
    cond {
      %eight = stablehlo.constant dense<8> : tensor<i32>
      %more = stablehlo.compare LT, %i, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %row = stablehlo.reshape %v : (tensor<16xf32>) -> tensor<1x16xf32>
      %new = stablehlo.dynamic_update_slice %cache, %row, %i, %zero
        : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
      %sum = stablehlo.reduce(%new init: %nothing) applies stablehlo.add across dimensions = [0]
        : (tensor<8x16xf32>, tensor<f32>) -> tensor<16xf32>
      %all = stablehlo.broadcast_in_dim %sum, dims = [1] : (tensor<16xf32>) -> tensor<16x16xf32>
      %product = stablehlo.multiply %all, %w : tensor<16x16xf32>
      %mixed = stablehlo.reduce(%product init: %nothing) applies stablehlo.add across dimensions = [1]
        : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
      %out = stablehlo.tanh %mixed : tensor<16xf32>
      stablehlo.return %next, %out, %new : tensor<i32>, tensor<16xf32>, tensor<8x16xf32>
    }
    return %r#1, %r#2 : tensor<16xf32>, tensor<8x16xf32>
  }
}
