// A comparator that puts equal elements in front of each other: the evaluator failed, and the network ordered them in no way.
func.func @main(%data: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xi32>) {
  %coarse = stablehlo.round_nearest_even %data : tensor<2x8xf32>
  %numbers = stablehlo.iota dim = 1 : tensor<2x8xi32>
  %0:2 = "stablehlo.sort"(%coarse, %numbers) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %m: tensor<i32>, %n: tensor<i32>):
    %is_before = stablehlo.compare LE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %is_before : tensor<i1>
  }) : (tensor<2x8xf32>, tensor<2x8xi32>) -> (tensor<2x8xf32>, tensor<2x8xi32>)
  return %0#0, %0#1 : tensor<2x8xf32>, tensor<2x8xi32>
}
