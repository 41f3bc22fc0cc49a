// RUN: %opt -p lower-xla-to-scf %s | filecheck %s

// 1000 elements over 16 tiles in steps of 64 lanes: the last tile has a tail, so the body is checked.

func.func @tail(%p0: tensor<1000xf32>, %r0: tensor<1000xf32>) -> tensor<1000xf32> attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %0 = xla.loop (%tile)[%step, %lane] -> (%i) in #xla.indexing_map<"(tile)[step, lane] -> (tile * 64 + lane), domain: tile in [0, 15], step in [0, 0], lane in [0, 63], tile * 64 + lane in [0, 999]"> lanes 1 iter_args(%t = %r0) -> (tensor<1000xf32>) {
    %1 = tensor.extract %p0[%i] : tensor<1000xf32>
    %2 = tensor.insert %1 into %t[%i] : tensor<1000xf32>
    xla.yield %2 : tensor<1000xf32>
  }
  func.return %0 : tensor<1000xf32>
}

// CHECK-LABEL: func.func @tail
// CHECK:      scf.for %step = %c0 to %c1 step %c1 iter_args([[A:%[^ ]+]] = %r0)
// CHECK-NEXT:   scf.for %lane = %c0 to %c64 step %c1 iter_args([[T:%[^ ]+]] = [[A]])
// CHECK-NEXT:     [[B:%[0-9]+]] = xla.in_domain #xla.indexing_map<"(tile)[step, lane] -> (), domain: {{.*}}, tile * 64 + lane in [0, 999]">(%tile)[%step, %lane]
// CHECK-NEXT:     scf.if [[B]] -> (tensor<1000xf32>) {
// CHECK-NEXT:       %i = xla.apply_indexing #xla.indexing_map<"(tile)[step, lane] -> (tile * 64 + lane)
// CHECK:            tensor.insert %{{.*}} into [[T]][%i]
// CHECK:          } else {
// CHECK-NEXT:       scf.yield [[T]]
// CHECK:        } {xla.lane}

// Where the loops cover the domain exactly there is no check.

func.func @whole(%r0: tensor<1024xf32>, %x: f32) -> tensor<1024xf32> attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %0 = xla.loop (%tile)[%step, %lane] -> (%i) in #xla.indexing_map<"(tile)[step, lane] -> (tile * 64 + lane), domain: tile in [0, 15], step in [0, 0], lane in [0, 63]"> lanes 1 iter_args(%t = %r0) -> (tensor<1024xf32>) {
    %2 = tensor.insert %x into %t[%i] : tensor<1024xf32>
    xla.yield %2 : tensor<1024xf32>
  }
  func.return %0 : tensor<1024xf32>
}

// CHECK-LABEL: func.func @whole
// CHECK-NOT:  xla.in_domain
// CHECK:      tensor.insert
