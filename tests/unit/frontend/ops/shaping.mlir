// One function per op: everything that moves elements, and the heroes.
func.func @broadcast_in_dim(%a: tensor<1x3xf32>) -> tensor<2x3x4xf32> {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x3xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
func.func @broadcast(%a: tensor<3xf32>) -> tensor<1x2x3xf32> {
  %0 = "stablehlo.broadcast"(%a) {broadcast_sizes = array<i64: 1, 2>} : (tensor<3xf32>) -> tensor<1x2x3xf32>
  return %0 : tensor<1x2x3xf32>
}
func.func @concatenate(%a: tensor<3x2xi64>, %b: tensor<1x2xi64>) -> tensor<4x2xi64> {
  %0 = "stablehlo.concatenate"(%a, %b) {dimension = 0 : i64} : (tensor<3x2xi64>, tensor<1x2xi64>) -> tensor<4x2xi64>
  return %0 : tensor<4x2xi64>
}
func.func @iota() -> tensor<4x5xi32> {
  %0 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4x5xi32>
  return %0 : tensor<4x5xi32>
}
func.func @pad(%a: tensor<2x3xi64>, %b: tensor<i64>) -> tensor<4x7xi64> {
  %0 = "stablehlo.pad"(%a, %b) {edge_padding_low = array<i64: 0, -1>, edge_padding_high = array<i64: 2, 1>,
    interior_padding = array<i64: 0, 2>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<4x7xi64>
  return %0 : tensor<4x7xi64>
}
func.func @reshape(%a: tensor<2x3xf8E5M2>) -> tensor<6xf8E5M2> {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x3xf8E5M2>) -> tensor<6xf8E5M2>
  return %0 : tensor<6xf8E5M2>
}
func.func @reverse(%a: tensor<3x2xui8>) -> tensor<3x2xui8> {
  %0 = "stablehlo.reverse"(%a) {dimensions = array<i64: 1>} : (tensor<3x2xui8>) -> tensor<3x2xui8>
  return %0 : tensor<3x2xui8>
}
func.func @slice(%a: tensor<3x8xi4>) -> tensor<1x2xi4> {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 1, 4>, limit_indices = array<i64: 2, 8>,
    strides = array<i64: 1, 2>} : (tensor<3x8xi4>) -> tensor<1x2xi4>
  return %0 : tensor<1x2xi4>
}
func.func @transpose(%a: tensor<2x3x5xcomplex<f32>>) -> tensor<5x2x3xcomplex<f32>> {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x5xcomplex<f32>>) -> tensor<5x2x3xcomplex<f32>>
  return %0 : tensor<5x2x3xcomplex<f32>>
}
func.func @bitcast_convert(%a: tensor<3xf32>) -> tensor<3x4xui8> {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<3xf32>) -> tensor<3x4xui8>
  return %0 : tensor<3x4xui8>
}
func.func @convert(%a: tensor<3xf8E4M3FN>) -> tensor<3xbf16> {
  %0 = "stablehlo.convert"(%a) : (tensor<3xf8E4M3FN>) -> tensor<3xbf16>
  return %0 : tensor<3xbf16>
}
func.func @dot(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.dot"(%a, %b) {precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]}
    : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @dot_general(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0],
    rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>,
    precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>],
    algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32,
      lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>}
    : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}
func.func @dot_outer(%a: tensor<2xf32>, %b: tensor<5xf32>) -> tensor<2x5xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGH>]} : (tensor<2xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
func.func @convolution(%a: tensor<1x8x8x4xf32>, %b: tensor<3x3x2x16xf32>) -> tensor<1x4x8x16xf32> {
  %0 = "stablehlo.convolution"(%a, %b) {window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [2, 2]]> : tensor<2x2xi64>,
    lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 2>, window_reversal = array<i1: false, true>,
    dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64,
    batch_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]}
    : (tensor<1x8x8x4xf32>, tensor<3x3x2x16xf32>) -> tensor<1x4x8x16xf32>
  return %0 : tensor<1x4x8x16xf32>
}
func.func @gather(%a: tensor<3x4x2xi32>, %b: tensor<2x3x2xi64>) -> tensor<2x3x2x2xi32> {
  %0 = "stablehlo.gather"(%a, %b) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0],
    start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>, indices_are_sorted = true}
    : (tensor<3x4x2xi32>, tensor<2x3x2xi64>) -> tensor<2x3x2x2xi32>
  return %0 : tensor<2x3x2x2xi32>
}
func.func @gather_batched(%a: tensor<2x3x4x2xi32>, %b: tensor<2x2x3x2xi64>) -> tensor<2x2x3x2x2xi32> {
  %0 = "stablehlo.gather"(%a, %b) {dimension_numbers = #stablehlo.gather<offset_dims = [3, 4], collapsed_slice_dims = [1],
    operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [2, 1], index_vector_dim = 3>,
    slice_sizes = array<i64: 1, 1, 2, 2>} : (tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>) -> tensor<2x2x3x2x2xi32>
  return %0 : tensor<2x2x3x2x2xi32>
}
func.func @scatter(%a: tensor<3x4x2xi64>, %b: tensor<2x3x2xi64>, %c: tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64> {
  %0 = "stablehlo.scatter"(%a, %b, %c) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %1 = stablehlo.add %x, %y : tensor<i64>
    stablehlo.return %1 : tensor<i64>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = true}
    : (tensor<3x4x2xi64>, tensor<2x3x2xi64>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return %0 : tensor<3x4x2xi64>
}
func.func @torch_index_select(%a: tensor<5x1x5xi32>, %b: tensor<2xi32>) -> tensor<2x1x5xi32> {
  %0 = "stablehlo.torch_index_select"(%a, %b) {dim = 0 : i64, batch_dims = 0 : i64} : (tensor<5x1x5xi32>, tensor<2xi32>) -> tensor<2x1x5xi32>
  return %0 : tensor<2x1x5xi32>
}
func.func @dynamic_slice(%a: tensor<4x4xi32>, %i: tensor<i64>) -> tensor<2x3xi32> {
  %0 = "stablehlo.dynamic_slice"(%a, %i, %i) {slice_sizes = array<i64: 2, 3>} : (tensor<4x4xi32>, tensor<i64>, tensor<i64>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}
func.func @dynamic_update_slice(%a: tensor<4x4xi32>, %u: tensor<2x3xi32>, %i: tensor<ui32>) -> tensor<4x4xi32> {
  %0 = "stablehlo.dynamic_update_slice"(%a, %u, %i, %i) : (tensor<4x4xi32>, tensor<2x3xi32>, tensor<ui32>, tensor<ui32>) -> tensor<4x4xi32>
  return %0 : tensor<4x4xi32>
}
func.func @real_dynamic_slice(%a: tensor<?xi32>, %i: tensor<1xi64>) -> tensor<?xi32> {
  %0 = "stablehlo.real_dynamic_slice"(%a, %i, %i, %i) : (tensor<?xi32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
func.func @dynamic_broadcast_in_dim(%a: tensor<1x3xf32>, %s: tensor<3xi64>) -> tensor<2x3x2xf32> {
  %0 = "stablehlo.dynamic_broadcast_in_dim"(%a, %s) {broadcast_dimensions = array<i64: 2, 1>, known_expanding_dimensions = array<i64: 0>,
    known_nonexpanding_dimensions = array<i64: 1>} : (tensor<1x3xf32>, tensor<3xi64>) -> tensor<2x3x2xf32>
  return %0 : tensor<2x3x2xf32>
}
func.func @dynamic_conv(%a: tensor<1x4x4x1xf32>, %b: tensor<3x3x1x1xf32>, %p: tensor<2x2xi64>) -> tensor<1x2x2x1xf32> {
  %0 = "stablehlo.dynamic_conv"(%a, %b, %p) {window_strides = array<i64: 4, 4>, lhs_dilation = array<i64: 2, 2>, rhs_dilation = array<i64: 1, 1>,
    window_reversal = array<i1: false, false>, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
    feature_group_count = 1 : i64, batch_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}
    : (tensor<1x4x4x1xf32>, tensor<3x3x1x1xf32>, tensor<2x2xi64>) -> tensor<1x2x2x1xf32>
  return %0 : tensor<1x2x2x1xf32>
}
func.func @dynamic_gather(%a: tensor<3x4x2xi32>, %b: tensor<2x3x2xi64>, %s: tensor<3xi64>) -> tensor<2x3x2x2xi32> {
  %0 = "stablehlo.dynamic_gather"(%a, %b, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0],
    start_index_map = [1, 0], index_vector_dim = 2>, indices_are_sorted = false} : (tensor<3x4x2xi32>, tensor<2x3x2xi64>, tensor<3xi64>) -> tensor<2x3x2x2xi32>
  return %0 : tensor<2x3x2x2xi32>
}
func.func @dynamic_iota(%s: tensor<2xi64>) -> tensor<4x5xi64> {
  %0 = "stablehlo.dynamic_iota"(%s) {iota_dimension = 0 : i64} : (tensor<2xi64>) -> tensor<4x5xi64>
  return %0 : tensor<4x5xi64>
}
func.func @dynamic_pad(%a: tensor<4xf32>, %v: tensor<f32>, %s: tensor<1xi32>) -> tensor<?xf32> {
  %0 = "stablehlo.dynamic_pad"(%a, %v, %s, %s, %s) : (tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @dynamic_reshape(%a: tensor<2x3xi64>, %s: tensor<2xi64>) -> tensor<3x2xi64> {
  %0 = "stablehlo.dynamic_reshape"(%a, %s) : (tensor<2x3xi64>, tensor<2xi64>) -> tensor<3x2xi64>
  return %0 : tensor<3x2xi64>
}
func.func @get_dimension_size(%a: tensor<2x3xi64>) -> tensor<i32> {
  %0 = "stablehlo.get_dimension_size"(%a) {dimension = 1 : i64} : (tensor<2x3xi64>) -> tensor<i32>
  return %0 : tensor<i32>
}
func.func @set_dimension_size(%a: tensor<4xf32>, %s: tensor<i32>) -> tensor<4xf32> {
  %0 = "stablehlo.set_dimension_size"(%a, %s) {dimension = 0 : i64} : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @einsum(%a: tensor<4x16xf32>, %b: tensor<16x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.einsum"(%a, %b) {einsum_config = "ab,bc->ac"} : (tensor<4x16xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @unary_einsum(%a: tensor<4x16xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.unary_einsum"(%a) {einsum_config = "ab->a"} : (tensor<4x16xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @fft(%a: tensor<3x9xcomplex<f64>>) -> tensor<3x9xcomplex<f64>> {
  %0 = "stablehlo.fft"(%a) {fft_type = #stablehlo<fft_type IFFT>, fft_length = array<i64: 9>} : (tensor<3x9xcomplex<f64>>) -> tensor<3x9xcomplex<f64>>
  return %0 : tensor<3x9xcomplex<f64>>
}
func.func @cholesky(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "stablehlo.cholesky"(%a) {lower = true} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
func.func @triangular_solve(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = false, unit_diagonal = true,
    transpose_a = #stablehlo<transpose ADJOINT>} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
func.func @batch_norm_inference(%x: tensor<2x2x3xf32>, %v: tensor<3xf32>) -> tensor<2x2x3xf32> {
  %0 = "stablehlo.batch_norm_inference"(%x, %v, %v, %v, %v) {epsilon = 1.001000e-05 : f32, feature_index = 2 : i64}
    : (tensor<2x2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x2x3xf32>
  return %0 : tensor<2x2x3xf32>
}
func.func @batch_norm_training(%x: tensor<2x2x3xf32>, %v: tensor<3xf32>) -> tensor<2x2x3xf32> {
  %0:3 = "stablehlo.batch_norm_training"(%x, %v, %v) {epsilon = 0.0 : f32, feature_index = 2 : i64}
    : (tensor<2x2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0 : tensor<2x2x3xf32>
}
func.func @batch_norm_grad(%x: tensor<2x2x3xf32>, %v: tensor<3xf32>) -> tensor<3xf32> {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %v, %v, %v, %x) {epsilon = 0.1 : f32, feature_index = 2 : i64}
    : (tensor<2x2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x2x3xf32>) -> (tensor<2x2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#2 : tensor<3xf32>
}
func.func @reduce_precision(%a: tensor<6xf64>) -> tensor<6xf64> {
  %0 = "stablehlo.reduce_precision"(%a) {exponent_bits = 5 : i32, mantissa_bits = 10 : i32} : (tensor<6xf64>) -> tensor<6xf64>
  return %0 : tensor<6xf64>
}
