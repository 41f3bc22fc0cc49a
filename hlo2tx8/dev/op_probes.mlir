// Modules of one operation for ops without samples, in sections `// ----- op: dtypes`. T is the element type, ONE a number of it.
// ----- stablehlo.reduce: all
func.func public @main(%a: tensor<5x70xT>, %z: tensor<T>) -> tensor<5xT> {
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<5x70xT>, tensor<T>) -> tensor<5xT>
  return %r : tensor<5xT>
}
// ----- stablehlo.reduce_window: all
func.func public @main(%a: tensor<5x70xT>, %z: tensor<T>) -> tensor<4x68xT> {
  %r = "stablehlo.reduce_window"(%a, %z) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.add %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {window_dimensions = array<i64: 2, 3>} : (tensor<5x70xT>, tensor<T>) -> tensor<4x68xT>
  return %r : tensor<4x68xT>
}
// ----- stablehlo.select_and_scatter: ordered
func.func public @main(%a: tensor<6x9xT>, %b: tensor<3x3xT>, %z: tensor<T>) -> tensor<6x9xT> {
  %r = "stablehlo.select_and_scatter"(%a, %b, %z) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %p = stablehlo.compare GE, %x, %y : (tensor<T>, tensor<T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.add %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 3>}
    : (tensor<6x9xT>, tensor<3x3xT>, tensor<T>) -> tensor<6x9xT>
  return %r : tensor<6x9xT>
}
// ----- stablehlo.sort: ordered
func.func public @main(%a: tensor<5x33xT>) -> tensor<5x33xT> {
  %r = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %p = stablehlo.compare LT, %x, %y : (tensor<T>, tensor<T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true} : (tensor<5x33xT>) -> tensor<5x33xT>
  return %r : tensor<5x33xT>
}
// ----- stablehlo.scatter: all
func.func public @main(%a: tensor<9x4xT>, %i: tensor<3x1xi32>, %u: tensor<3x4xT>) -> tensor<9x4xT> {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.add %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
    : (tensor<9x4xT>, tensor<3x1xi32>, tensor<3x4xT>) -> tensor<9x4xT>
  return %r : tensor<9x4xT>
}
// ----- stablehlo.gather: all
func.func public @main(%a: tensor<9x4xT>, %i: tensor<3x1xi32>) -> tensor<3x4xT> {
  %r = "stablehlo.gather"(%a, %i) {slice_sizes = array<i64: 1, 4>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<9x4xT>, tensor<3x1xi32>) -> tensor<3x4xT>
  return %r : tensor<3x4xT>
}
// ----- stablehlo.torch_index_select: all
func.func public @main(%a: tensor<9x4xT>, %i: tensor<3xi32>) -> tensor<3x4xT> {
  %r = "stablehlo.torch_index_select"(%a, %i) {dim = 0 : i64, batch_dims = 0 : i64}
    : (tensor<9x4xT>, tensor<3xi32>) -> tensor<3x4xT>
  return %r : tensor<3x4xT>
}
// ----- stablehlo.dot: numbers
func.func public @main(%a: tensor<16x32xT>, %b: tensor<32x8xT>) -> tensor<16x8xT> {
  %r = stablehlo.dot %a, %b : (tensor<16x32xT>, tensor<32x8xT>) -> tensor<16x8xT>
  return %r : tensor<16x8xT>
}
// ----- stablehlo.dot_general: numbers
func.func public @main(%a: tensor<2x16x32xT>, %b: tensor<2x32x8xT>) -> tensor<2x16x8xT> {
  %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x16x32xT>, tensor<2x32x8xT>) -> tensor<2x16x8xT>
  return %r : tensor<2x16x8xT>
}
// ----- stablehlo.convolution: numbers
func.func public @main(%a: tensor<2x6x7x4xT>, %b: tensor<3x3x4x8xT>) -> tensor<2x4x5x8xT> {
  %r = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<2x6x7x4xT>, tensor<3x3x4x8xT>) -> tensor<2x4x5x8xT>
  return %r : tensor<2x4x5x8xT>
}
// ----- stablehlo.batch_norm_inference: floats
func.func public @main(%a: tensor<4x8xT>, %b: tensor<8xT>, %c: tensor<8xT>, %d: tensor<8xT>, %e: tensor<8xT>) -> tensor<4x8xT> {
  %r = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<4x8xT>, tensor<8xT>, tensor<8xT>, tensor<8xT>, tensor<8xT>) -> tensor<4x8xT>
  return %r : tensor<4x8xT>
}
// ----- stablehlo.batch_norm_training: floats
func.func public @main(%a: tensor<4x8xT>, %b: tensor<8xT>, %c: tensor<8xT>) -> (tensor<4x8xT>, tensor<8xT>, tensor<8xT>) {
  %r:3 = "stablehlo.batch_norm_training"(%a, %b, %c) {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<4x8xT>, tensor<8xT>, tensor<8xT>) -> (tensor<4x8xT>, tensor<8xT>, tensor<8xT>)
  return %r#0, %r#1, %r#2 : tensor<4x8xT>, tensor<8xT>, tensor<8xT>
}
// ----- stablehlo.batch_norm_grad: floats
func.func public @main(%a: tensor<4x8xT>, %b: tensor<8xT>, %c: tensor<8xT>, %d: tensor<8xT>, %e: tensor<4x8xT>)
    -> (tensor<4x8xT>, tensor<8xT>, tensor<8xT>) {
  %r:3 = "stablehlo.batch_norm_grad"(%a, %b, %c, %d, %e) {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<4x8xT>, tensor<8xT>, tensor<8xT>, tensor<8xT>, tensor<4x8xT>) -> (tensor<4x8xT>, tensor<8xT>, tensor<8xT>)
  return %r#0, %r#1, %r#2 : tensor<4x8xT>, tensor<8xT>, tensor<8xT>
}
// ----- stablehlo.cholesky: solved
func.func public @main(%a: tensor<4x4xT>) -> tensor<4x4xT> {
  %r = "stablehlo.cholesky"(%a) {lower = true} : (tensor<4x4xT>) -> tensor<4x4xT>
  return %r : tensor<4x4xT>
}
// ----- stablehlo.triangular_solve: solved
func.func public @main(%a: tensor<4x4xT>, %b: tensor<4x3xT>) -> tensor<4x3xT> {
  %r = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false,
      transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<4x4xT>, tensor<4x3xT>) -> tensor<4x3xT>
  return %r : tensor<4x3xT>
}
// ----- stablehlo.dynamic_slice: all
func.func public @main(%a: tensor<9x70xT>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<3x33xT> {
  %r = stablehlo.dynamic_slice %a, %i, %j, sizes = [3, 33] : (tensor<9x70xT>, tensor<i32>, tensor<i32>) -> tensor<3x33xT>
  return %r : tensor<3x33xT>
}
// ----- stablehlo.dynamic_update_slice: all
func.func public @main(%a: tensor<9x70xT>, %u: tensor<3x33xT>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<9x70xT> {
  %r = stablehlo.dynamic_update_slice %a, %u, %i, %j : (tensor<9x70xT>, tensor<3x33xT>, tensor<i32>, tensor<i32>) -> tensor<9x70xT>
  return %r : tensor<9x70xT>
}
// ----- stablehlo.real_dynamic_slice: all
func.func public @main(%a: tensor<9xT>) -> tensor<4xT> {
  %s = stablehlo.constant dense<1> : tensor<1xi64>
  %l = stablehlo.constant dense<9> : tensor<1xi64>
  %d = stablehlo.constant dense<2> : tensor<1xi64>
  %r = stablehlo.real_dynamic_slice %a, %s, %l, %d : (tensor<9xT>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4xT>
  return %r : tensor<4xT>
}
// ----- stablehlo.dynamic_reshape: all
func.func public @main(%a: tensor<4x6xT>) -> tensor<3x8xT> {
  %s = stablehlo.constant dense<[3, 8]> : tensor<2xi64>
  %r = stablehlo.dynamic_reshape %a, %s : (tensor<4x6xT>, tensor<2xi64>) -> tensor<3x8xT>
  return %r : tensor<3x8xT>
}
// ----- stablehlo.dynamic_broadcast_in_dim: all
func.func public @main(%a: tensor<6xT>) -> tensor<4x6xT> {
  %s = stablehlo.constant dense<[4, 6]> : tensor<2xi64>
  %r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<6xT>, tensor<2xi64>) -> tensor<4x6xT>
  return %r : tensor<4x6xT>
}
// ----- stablehlo.dynamic_iota: numbers
func.func public @main() -> tensor<4x6xT> {
  %s = stablehlo.constant dense<[4, 6]> : tensor<2xi64>
  %r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<4x6xT>
  return %r : tensor<4x6xT>
}
// ----- chlo.top_k: ordered
func.func public @main(%a: tensor<3x33xT>) -> (tensor<3x5xT>, tensor<3x5xi32>) {
  %r:2 = chlo.top_k(%a, k = 5) : tensor<3x33xT> -> (tensor<3x5xT>, tensor<3x5xi32>)
  return %r#0, %r#1 : tensor<3x5xT>, tensor<3x5xi32>
}
// ----- chlo.constant_like: real
func.func public @main(%a: tensor<3x5xT>) -> tensor<3x5xT> {
  %r = "chlo.constant_like"(%a) {value = ONE : T} : (tensor<3x5xT>) -> tensor<3x5xT>
  return %r : tensor<3x5xT>
}
// ----- chlo.constant: all
func.func public @main() -> tensor<3x5xT> {
  %r = "chlo.constant"() {value = dense<ONE> : tensor<3x5xT>} : () -> tensor<3x5xT>
  return %r : tensor<3x5xT>
}
// ----- stablehlo.constant: all
func.func public @main() -> tensor<3x5xT> {
  %r = stablehlo.constant dense<ONE> : tensor<3x5xT>
  return %r : tensor<3x5xT>
}
// ----- stablehlo.if: all
func.func public @main(%p: tensor<i1>, %a: tensor<70xT>, %b: tensor<70xT>) -> tensor<70xT> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %a : tensor<70xT>
  }, {
    stablehlo.return %b : tensor<70xT>
  }) : (tensor<i1>) -> tensor<70xT>
  return %r : tensor<70xT>
}
// ----- stablehlo.case: all
func.func public @main(%p: tensor<i32>, %a: tensor<70xT>, %b: tensor<70xT>) -> tensor<70xT> {
  %r = "stablehlo.case"(%p) ({
    stablehlo.return %a : tensor<70xT>
  }, {
    stablehlo.return %b : tensor<70xT>
  }) : (tensor<i32>) -> tensor<70xT>
  return %r : tensor<70xT>
}
// ----- stablehlo.while: all
func.func public @main(%p: tensor<i1>, %a: tensor<70xT>) -> (tensor<i1>, tensor<70xT>) {
  %r:2 = stablehlo.while(%q = %p, %x = %a) : tensor<i1>, tensor<70xT>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %n = stablehlo.not %q : tensor<i1>
      stablehlo.return %n, %x : tensor<i1>, tensor<70xT>
    }
  return %r#0, %r#1 : tensor<i1>, tensor<70xT>
}
// ----- stablehlo.map: all
func.func public @main(%a: tensor<70xT>, %b: tensor<70xT>) -> tensor<70xT> {
  %r = "stablehlo.map"(%a, %b) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.add %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {dimensions = array<i64: 0>} : (tensor<70xT>, tensor<70xT>) -> tensor<70xT>
  return %r : tensor<70xT>
}
// ----- stablehlo.optimization_barrier: all
func.func public @main(%a: tensor<70xT>) -> tensor<70xT> {
  %r = stablehlo.optimization_barrier %a : tensor<70xT>
  return %r : tensor<70xT>
}
// ----- stablehlo.tuple: all
func.func public @main(%a: tensor<70xT>) -> tensor<70xT> {
  %t = stablehlo.tuple %a, %a : tuple<tensor<70xT>, tensor<70xT>>
  %r = stablehlo.get_tuple_element %t[1] : (tuple<tensor<70xT>, tensor<70xT>>) -> tensor<70xT>
  return %r : tensor<70xT>
}
// ----- stablehlo.get_tuple_element: all
func.func public @main(%a: tensor<70xT>) -> tensor<70xT> {
  %t = stablehlo.tuple %a, %a : tuple<tensor<70xT>, tensor<70xT>>
  %r = stablehlo.get_tuple_element %t[0] : (tuple<tensor<70xT>, tensor<70xT>>) -> tensor<70xT>
  return %r : tensor<70xT>
}
// ----- stablehlo.composite: all
func.func private @same(%x: tensor<70xT>) -> tensor<70xT> {
  return %x : tensor<70xT>
}
func.func public @main(%a: tensor<70xT>) -> tensor<70xT> {
  %r = stablehlo.composite "some.same" %a {decomposition = @same} : (tensor<70xT>) -> tensor<70xT>
  return %r : tensor<70xT>
}
// ----- stablehlo.fft: complex
func.func public @main(%a: tensor<3x8xT>) -> tensor<3x8xT> {
  %r = stablehlo.fft %a, type = FFT, length = [8] : (tensor<3x8xT>) -> tensor<3x8xT>
  return %r : tensor<3x8xT>
}
// ----- stablehlo.rng_bit_generator: drawn
func.func public @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<70xT>) {
  %o, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<70xT>)
  return %o, %r : tensor<2xui64>, tensor<70xT>
}
// ----- stablehlo.rng: real
func.func public @main(%a: tensor<T>, %b: tensor<T>) -> tensor<70xT> {
  %s = stablehlo.constant dense<[70]> : tensor<1xi64>
  %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<T>, tensor<T>, tensor<1xi64>) -> tensor<70xT>
  return %r : tensor<70xT>
}
