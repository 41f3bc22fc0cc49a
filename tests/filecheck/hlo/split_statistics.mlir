// RUN: %opt -p split-statistics %s --split-input-file | filecheck %s

// 128 parts of 50 lines are read once for their sums and their squared differences; each tile joins its 8, then all are joined.

func.func @main(%x: tensor<6400x16xf32>) -> tensor<16xf32> {
  %i = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %n = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AADIRQ==">}> : () -> tensor<16xf32>
  %s = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<6400x16xf32>, tensor<f32>) -> tensor<16xf32>
  %m = "stablehlo.divide"(%s, %n) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %w = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 1>}> : (tensor<16xf32>) -> tensor<6400x16xf32>
  %d = "stablehlo.subtract"(%x, %w) : (tensor<6400x16xf32>, tensor<6400x16xf32>) -> tensor<6400x16xf32>
  %e = "stablehlo.multiply"(%d, %d) : (tensor<6400x16xf32>, tensor<6400x16xf32>) -> tensor<6400x16xf32>
  %q = "stablehlo.reduce"(%e, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<6400x16xf32>, tensor<f32>) -> tensor<16xf32>
  func.return %q : tensor<16xf32>
}

// CHECK:      func.func @main(%[[X:.*]]: tensor<6400x16xf32>)
// CHECK:        %[[PARTS:.*]] = "stablehlo.reshape"(%{{.*}}) : (tensor<6400x16xf32>) -> tensor<128x50x16xf32>
// CHECK:        %[[S:.*]] = "stablehlo.reduce"(%[[PARTS]], %{{.*}}) <{dimensions = array<i64: 1>}>
// CHECK:        %[[OWN:.*]] = "stablehlo.multiply"(%[[S]], %{{.*}}) : {{.*}} -> tensor<128x16xf32>
// CHECK:        %[[D:.*]] = "stablehlo.subtract"(%[[PARTS]], %{{.*}})
// CHECK:        %[[E:.*]] = "stablehlo.multiply"(%[[D]], %[[D]])
// CHECK:        "stablehlo.reduce"(%[[D]], %{{.*}}) <{dimensions = array<i64: 1>}>
// CHECK:        "stablehlo.reduce"(%[[E]], %{{.*}}) <{dimensions = array<i64: 1>}>
// CHECK:        "stablehlo.reshape"(%[[OWN]]) : (tensor<128x16xf32>) -> tensor<16x8x16xf32>
// CHECK:        "stablehlo.reduce"({{.*}}) <{dimensions = array<i64: 1>}>
// CHECK:        %[[OF_TILES:.*]] = "stablehlo.add"({{.*}}) : (tensor<16x16xf32>, tensor<16x16xf32>)
// CHECK:        %[[SUM:.*]] = "stablehlo.reduce"(%[[OF_TILES]], %{{.*}}) <{dimensions = array<i64: 0>}>
// CHECK:        %[[MEAN:.*]] = "stablehlo.divide"(%[[SUM]], %{{.*}})
// CHECK:        %[[RESULT:.*]] = "stablehlo.reduce"(%{{.*}}, %{{.*}}) <{dimensions = array<i64: 0>}>
// CHECK:        func.return %[[RESULT]] : tensor<16xf32>

// -----

// Rows that a step holds whole: one fusion reads both as it is written.

func.func @main(%x: tensor<4096x64xf32>) -> tensor<4096xf32> {
  %i = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %n = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAQg==">}> : () -> tensor<4096xf32>
  %s = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<4096x64xf32>, tensor<f32>) -> tensor<4096xf32>
  %m = "stablehlo.divide"(%s, %n) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %w = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4096xf32>) -> tensor<4096x64xf32>
  %d = "stablehlo.subtract"(%x, %w) : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %e = "stablehlo.multiply"(%d, %d) : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %q = "stablehlo.reduce"(%e, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<4096x64xf32>, tensor<f32>) -> tensor<4096xf32>
  func.return %q : tensor<4096xf32>
}

// CHECK:      func.func @main(%[[X:.*]]: tensor<4096x64xf32>)
// CHECK-NOT:    "stablehlo.reshape"
// CHECK:        %[[D:.*]] = "stablehlo.subtract"(%[[X]], %{{.*}})
