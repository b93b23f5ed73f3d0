#include "winnow/train/gpu/device.h"

#if WINNOW_WITH_CUDA

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>

namespace winnow {

void wait_for(at::Device device) {
  if (device.is_cuda()) {
    c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
  }
}

void go_first(at::Device device) {
  if (!device.is_cuda()) {
    return;
  }
  // Always the same one of a device, so that what one session leaves behind is done before the next
  // reads it.
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  const std::scoped_lock lock(mutex);
  auto stream = streams.find(device.index());
  if (stream == streams.end()) {
    stream = streams
                 .emplace(device.index(),
                          c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index()))
                 .first;
  }
  c10::cuda::setCurrentCUDAStream(stream->second);
}

void keep_until_read(const at::Tensor& tensor) {
  if (tensor.is_cuda()) {
    tensor.record_stream(c10::cuda::getCurrentCUDAStream(tensor.device().index()).unwrap());
  }
}

void reset_peak_device_memory(at::Device device) {
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
  }
}

std::int64_t peak_device_memory(at::Device device) {
  constexpr std::size_t kOfAllKinds = 0;
  return device.is_cuda() ? c10::cuda::CUDACachingAllocator::getDeviceStats(device.index())
                                .reserved_bytes[kOfAllKinds]
                                .peak
                          : 0;
}

}  // namespace winnow

#endif
