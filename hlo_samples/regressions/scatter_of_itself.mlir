// What a scatter adds are rows of what it adds to: none of them may have changed before it is read.
func.func @main(%x: tensor<70x120xf32>) -> tensor<70x120xf32> {
  %y = stablehlo.multiply %x, %x : tensor<70x120xf32>
  %n = stablehlo.iota dim = 0 : tensor<70x1xi32>
  %one = stablehlo.constant dense<1> : tensor<70x1xi32>
  %i = stablehlo.add %n, %one : tensor<70x1xi32>
  %r = "stablehlo.scatter"(%y, %i, %y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<70x120xf32>, tensor<70x1xi32>, tensor<70x120xf32>) -> tensor<70x120xf32>
  return %r : tensor<70x120xf32>
}
