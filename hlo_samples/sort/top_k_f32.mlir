module @top_k {
  func.func @main(%x: tensor<5x50xf32>) -> (tensor<5x8xf32>, tensor<5x8xi32>) {
    %v, %i = chlo.top_k(%x, k = 8) : tensor<5x50xf32> -> (tensor<5x8xf32>, tensor<5x8xi32>)
    return %v, %i : tensor<5x8xf32>, tensor<5x8xi32>
  }
}
