// A counted loop whose state swaps places: (a, b) becomes (b, a + i), seven times; the table is a constant of the body.
module @swap_counted {
  func.func @main(%a: tensor<5x33xi32>, %b: tensor<5x33xi32>) -> (tensor<5x33xi32>, tensor<5x33xi32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:3 = stablehlo.while(%i = %zero, %x = %a, %y = %b) : tensor<i32>, tensor<5x33xi32>, tensor<5x33xi32>
    cond {
      %seven = stablehlo.constant dense<7> : tensor<i32>
      %more = stablehlo.compare LT, %i, %seven : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %table = stablehlo.constant dense<[1, 4, 9, 16, 25]> : tensor<5xi32>
      %spread = stablehlo.broadcast_in_dim %table, dims = [0] : (tensor<5xi32>) -> tensor<5x33xi32>
      %turn = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<5x33xi32>
      %product = stablehlo.multiply %spread, %turn : tensor<5x33xi32>
      %sum = stablehlo.add %x, %product : tensor<5x33xi32>
      stablehlo.return %next, %y, %sum : tensor<i32>, tensor<5x33xi32>, tensor<5x33xi32>
    }
    return %r#1, %r#2 : tensor<5x33xi32>, tensor<5x33xi32>
  }
}
