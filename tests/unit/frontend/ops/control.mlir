// One function per op: regions, calls, tuples, tokens, random numbers, communication.
func.func private @callee(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
func.func @call(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @callee(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @composite(%a: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.composite"(%a) {name = "my.op", decomposition = @callee, version = 1 : i32,
    composite_attributes = {axis = 1 : i64, text = "a \"quoted\" b", flag = true, values = dense<[1.0, 2.5]> : tensor<2xf32>}}
    : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @custom_call(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "stablehlo.custom_call"(%a) {call_target_name = "foo", has_side_effect = true, api_version = 4 : i32,
    backend_config = {alpha = 2.500000e-01 : f32, n = 3 : i32, names = ["x", "y"]}, called_computations = [@callee],
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>],
    output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}
    : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func @custom_call_text(%a: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.custom_call"(%a) {call_target_name = "bar", backend_config = "line\0Awith \\ and \"quotes\""} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @case(%i: tensor<i32>, %a: tensor<2xi64>) -> tensor<2xi64> {
  %0 = "stablehlo.case"(%i) ({
    stablehlo.return %a : tensor<2xi64>
  }, {
    %1 = stablehlo.negate %a : tensor<2xi64>
    stablehlo.return %1 : tensor<2xi64>
  }, {
    stablehlo.return %a : tensor<2xi64>
  }) : (tensor<i32>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}
func.func @if(%p: tensor<i1>, %a: tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>) {
  %0:2 = "stablehlo.if"(%p) ({
    stablehlo.return %a, %a : tensor<2xi64>, tensor<2xi64>
  }, {
    %1 = stablehlo.abs %a : tensor<2xi64>
    stablehlo.return %1, %a : tensor<2xi64>, tensor<2xi64>
  }) : (tensor<i1>) -> (tensor<2xi64>, tensor<2xi64>)
  return %0#0, %0#1 : tensor<2xi64>, tensor<2xi64>
}
func.func @while(%a: tensor<i64>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.constant dense<10> : tensor<i64>
  %0:2 = "stablehlo.while"(%a, %b) ({
  ^bb0(%i: tensor<i64>, %x: tensor<4xf32>):
    %1 = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%i: tensor<i64>, %x: tensor<4xf32>):
    %one = stablehlo.constant dense<1> : tensor<i64>
    %2 = stablehlo.add %i, %one : tensor<i64>
    %3 = stablehlo.multiply %x, %x : tensor<4xf32>
    stablehlo.return %2, %3 : tensor<i64>, tensor<4xf32>
  }) : (tensor<i64>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)
  return %0#1 : tensor<4xf32>
}
func.func @map(%a: tensor<2x2xi64>, %b: tensor<2x2xi64>) -> tensor<2x2xi64> {
  %0 = "stablehlo.map"(%a, %b) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %1 = stablehlo.multiply %x, %y : tensor<i64>
    stablehlo.return %1 : tensor<i64>
  }) {dimensions = array<i64: 0, 1>} : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi64>
  return %0 : tensor<2x2xi64>
}
func.func @reduce(%a: tensor<1x6xf32>, %b: tensor<1x6xi32>, %i: tensor<f32>, %j: tensor<i32>) -> (tensor<1xf32>, tensor<1xi32>) {
  %0:2 = "stablehlo.reduce"(%a, %b, %i, %j) ({
  ^bb0(%x: tensor<f32>, %k: tensor<i32>, %y: tensor<f32>, %l: tensor<i32>):
    %1 = stablehlo.maximum %x, %y : tensor<f32>
    %2 = stablehlo.compare GT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.select %2, %k, %l : tensor<i1>, tensor<i32>
    stablehlo.return %1, %3 : tensor<f32>, tensor<i32>
  }) {dimensions = array<i64: 1>} : (tensor<1x6xf32>, tensor<1x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<1xf32>, tensor<1xi32>)
  return %0#0, %0#1 : tensor<1xf32>, tensor<1xi32>
}
func.func @reduce_window(%a: tensor<3x2xi64>, %i: tensor<i64>) -> tensor<2x2xi64> {
  %0 = "stablehlo.reduce_window"(%a, %i) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %1 = stablehlo.add %x, %y : tensor<i64>
    stablehlo.return %1 : tensor<i64>
  }) {window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 4, 1>, base_dilations = array<i64: 2, 1>,
    window_dilations = array<i64: 3, 1>, padding = dense<[[2, 1], [0, 0]]> : tensor<2x2xi64>} : (tensor<3x2xi64>, tensor<i64>) -> tensor<2x2xi64>
  return %0 : tensor<2x2xi64>
}
func.func @select_and_scatter(%a: tensor<4x2xi64>, %s: tensor<2x2xi64>, %i: tensor<i64>) -> tensor<4x2xi64> {
  %0 = "stablehlo.select_and_scatter"(%a, %s, %i) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %1 = stablehlo.compare GE, %x, %y, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %1 = stablehlo.add %x, %y : tensor<i64>
    stablehlo.return %1 : tensor<i64>
  }) {window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>, padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>}
    : (tensor<4x2xi64>, tensor<2x2xi64>, tensor<i64>) -> tensor<4x2xi64>
  return %0 : tensor<4x2xi64>
}
func.func @sort(%a: tensor<2x3xi64>, %b: tensor<2x3xf32>) -> (tensor<2x3xi64>, tensor<2x3xf32>) {
  %0:2 = "stablehlo.sort"(%a, %b) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>, %u: tensor<f32>, %v: tensor<f32>):
    %1 = stablehlo.compare LT, %u, %v, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true} : (tensor<2x3xi64>, tensor<2x3xf32>) -> (tensor<2x3xi64>, tensor<2x3xf32>)
  return %0#0, %0#1 : tensor<2x3xi64>, tensor<2x3xf32>
}
func.func @tuple(%a: tensor<2xf32>, %b: tensor<i32>) -> tensor<i32> {
  %0 = "stablehlo.tuple"(%a, %b) : (tensor<2xf32>, tensor<i32>) -> tuple<tensor<2xf32>, tensor<i32>>
  %1 = "stablehlo.get_tuple_element"(%0) {index = 1 : i32} : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<i32>
  return %1 : tensor<i32>
}
func.func @optimization_barrier(%a: tensor<2xf32>, %b: tensor<i32>) -> (tensor<2xf32>, tensor<i32>) {
  %0:2 = "stablehlo.optimization_barrier"(%a, %b) : (tensor<2xf32>, tensor<i32>) -> (tensor<2xf32>, tensor<i32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<i32>
}
func.func @tokens(%a: tensor<2xf32>) -> !stablehlo.token {
  %0 = "stablehlo.create_token"() : () -> !stablehlo.token
  %1 = "stablehlo.after_all"(%0, %0) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
  %2 = "stablehlo.outfeed"(%a, %1) {outfeed_config = "out"} : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  %3 = "stablehlo.send"(%a, %2) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}
    : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  return %3 : !stablehlo.token
}
func.func @infeed(%t: !stablehlo.token) -> (tensor<2x2xi64>, !stablehlo.token) {
  %0:2 = "stablehlo.infeed"(%t) {infeed_config = "in", layout = [[0, 1]]} : (!stablehlo.token) -> (tensor<2x2xi64>, !stablehlo.token)
  return %0#0, %0#1 : tensor<2x2xi64>, !stablehlo.token
}
func.func @recv(%t: !stablehlo.token) -> (tensor<2x2xi64>, !stablehlo.token) {
  %0:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true}
    : (!stablehlo.token) -> (tensor<2x2xi64>, !stablehlo.token)
  return %0#0, %0#1 : tensor<2x2xi64>, !stablehlo.token
}
func.func @rng(%a: tensor<f32>, %s: tensor<2xi64>) -> tensor<3x3xf32> {
  %0 = "stablehlo.rng"(%a, %a, %s) {rng_distribution = #stablehlo<rng_distribution NORMAL>} : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
func.func @rng_bit_generator(%a: tensor<2xui64>) -> (tensor<2xui64>, tensor<2x2xui64>) {
  %0:2 = "stablehlo.rng_bit_generator"(%a) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x2xui64>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<2x2xui64>
}
func.func @partition_id() -> (tensor<ui32>, tensor<ui32>) {
  %0 = "stablehlo.partition_id"() : () -> tensor<ui32>
  %1 = "stablehlo.replica_id"() : () -> tensor<ui32>
  return %0, %1 : tensor<ui32>, tensor<ui32>
}
func.func @all_gather(%a: tensor<2x2xi64>) -> tensor<2x4xi64> {
  %0 = "stablehlo.all_gather"(%a) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2x2xi64>) -> tensor<2x4xi64>
  return %0 : tensor<2x4xi64>
}
func.func @all_reduce(%a: tensor<4xi64>) -> tensor<4xi64> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %1 = stablehlo.add %x, %y : tensor<i64>
    stablehlo.return %1 : tensor<i64>
  }) {replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>} : (tensor<4xi64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
func.func @all_to_all(%a: tensor<2x4xi64>) -> tensor<4x2xi64> {
  %0 = "stablehlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
  return %0 : tensor<4x2xi64>
}
func.func @collective_broadcast(%a: tensor<1x2xi64>) -> tensor<1x2xi64> {
  %0 = "stablehlo.collective_broadcast"(%a) {replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<1x2xi64>) -> tensor<1x2xi64>
  return %0 : tensor<1x2xi64>
}
func.func @collective_permute(%a: tensor<2x2xi64>) -> tensor<2x2xi64> {
  %0 = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>} : (tensor<2x2xi64>) -> tensor<2x2xi64>
  return %0 : tensor<2x2xi64>
}
func.func @reduce_scatter(%a: tensor<2x4xi64>) -> tensor<2x2xi64> {
  %0 = "stablehlo.reduce_scatter"(%a) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %1 = stablehlo.add %x, %y : tensor<i64>
    stablehlo.return %1 : tensor<i64>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2x4xi64>) -> tensor<2x2xi64>
  return %0 : tensor<2x2xi64>
}
func.func @cross_replica_sum(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.cross-replica-sum"(%a) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @async(%a: tensor<128x32xf32>) -> tensor<128x128xf32> {
  %0 = "stablehlo.async_start"(%a) ({
  ^bb0(%x: tensor<128x32xf32>):
    %2 = "stablehlo.all_gather"(%x) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>} : (tensor<128x32xf32>) -> tensor<128x128xf32>
    stablehlo.return %2 : tensor<128x128xf32>
  }) : (tensor<128x32xf32>) -> !stablehlo.future<tensor<128x128xf32>>
  %1 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<128x128xf32>>) -> tensor<128x128xf32>
  return %1 : tensor<128x128xf32>
}
