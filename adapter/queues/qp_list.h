// adapter/queues/qp_list.h -- lists of QPs through links in the QPs themselves. A QP is in at most one list
// per link, and can be removed from any place in constant time.
#pragma once

#include <cstddef>

#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

/// Owner: the adapter's thread. Must not be moved while it holds a QP.
template <QpLink QueuePair::*kLink>
class QpList {
 public:
  QpList() = default;
  QpList(const QpList&) = delete;
  QpList& operator=(const QpList&) = delete;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] QueuePair& front() noexcept { return *first_; }
  [[nodiscard]] const QueuePair& front() const noexcept { return *first_; }
  [[nodiscard]] bool holds(const QueuePair& qp) const noexcept { return (qp.*kLink).list == this; }

  /// `qp` must be in no list of this link.
  void push_back(QueuePair& qp) noexcept {
    qp.*kLink = {.next = nullptr, .before = last_, .list = this};
    (last_ != nullptr ? (last_->*kLink).next : first_) = &qp;
    last_ = &qp;
    ++size_;
  }
  QueuePair& pop_front() noexcept {
    QueuePair& qp = *first_;
    remove(qp);
    return qp;
  }
  /// Removes `qp` from its list, if it is in one.
  static void unlink(QueuePair& qp) noexcept {
    auto* list = static_cast<QpList*>((qp.*kLink).list);
    if (list != nullptr) list->remove(qp);
  }

 private:
  void remove(QueuePair& qp) noexcept {
    const QpLink link = qp.*kLink;
    (link.before != nullptr ? (link.before->*kLink).next : first_) = link.next;
    (link.next != nullptr ? (link.next->*kLink).before : last_) = link.before;
    qp.*kLink = {};
    --size_;
  }

  QueuePair* first_ = nullptr;
  QueuePair* last_ = nullptr;
  size_t size_ = 0;
};

using SendList = QpList<&QueuePair::send_link>;
using AckList = QpList<&QueuePair::ack_link>;

}  // namespace weft::adapter
