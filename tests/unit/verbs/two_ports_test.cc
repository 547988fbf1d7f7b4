// Changes of QPs of a device with two ports: the address of a QP names the QP's port.
#include <memory>
#include <thread>

#include "fabric/switch/shm_acceptor.h"
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

constexpr const char* kAdapters = "WEFT_ADAPTERS";

/// A switch whose spare ports are for the adapters of one process.
class SpareFabric {
 public:
  SpareFabric() {
    runner_.add(*acceptor_);
    runner_.add(core_);
    thread_ = std::thread([this] { runner_.run(); });
  }
  ~SpareFabric() {
    runner_.stop();
    thread_.join();
  }
  SpareFabric(const SpareFabric&) = delete;
  SpareFabric& operator=(const SpareFabric&) = delete;
  [[nodiscard]] std::string endpoint() const { return "shm:" + path(); }

 private:
  [[nodiscard]] std::string path() const { return dir_.path() + "/s"; }

  MonotonicClock clock_;
  TempDir dir_;
  SystemRandom random_;
  fabric::Switch core_{small_switch()};
  fabric::Admission admission_{core_, {}, fabric::SpareConfig{.ports = 4, .first_lid = Lid(1)}, random_};
  std::unique_ptr<Pollable> acceptor_ = std::move(fabric::ShmAcceptor::create(path(), admission_).value());
  LoopRunner runner_{clock_, LoopConfig{.spin = {}, .sleep_max = std::chrono::milliseconds(20)}};
  std::thread thread_;
};

/// The library joins once in a process, so each test runs once more in a process with two adapters.
class TwoPorts : public Verbs {
 protected:
  void SetUp() override {
    if (has_two()) {
      static const SpareFabric fabric;
      ASSERT_EQ(setenv("WEFT_FABRIC", fabric.endpoint().c_str(), 1), 0);
      for (const char* name : {"WEFT_GUID", "WEFT_LID"}) ASSERT_EQ(unsetenv(name), 0);
    }
    Verbs::SetUp();
  }
  [[nodiscard]] static bool has_two() { return std::getenv(kAdapters) != nullptr; }
  [[nodiscard]] uint16_t lid_of(uint8_t port) const {
    ibv_port_attr attr;
    EXPECT_EQ(ibv_query_port(context, port, &attr), 0);
    return attr.lid;
  }
  [[nodiscard]] static uint8_t port_of(ibv_qp* qp) {
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &now, IBV_QP_PORT, &init), 0);
    return now.port_num;
  }
  /// A QP in RTS on port 1, connected with itself.
  ibv_qp* connected(ibv_qp_type type) {
    ibv_qp* qp = make_qp(type);
    ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .port_num = 1};
    constexpr int kInit = int{IBV_QP_STATE} | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, kInit), 0);
    attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = qp->qp_num};
    attr.ah_attr = {.dlid = lid_of(1), .port_num = 2};
    const int answers = type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
    const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | answers;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, rtr), EINVAL) << "the QP is on port 1";
    attr.ah_attr.port_num = 1;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, rtr), 0);
    attr = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
    const int asks = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (type == IBV_QPT_RC ? asks : 0)), 0);
    attr = {.qp_state = IBV_QPS_SQD};
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    return qp;
  }
  int give_address(ibv_qp* qp, uint8_t port, uint8_t qp_port = 0) {
    ibv_qp_attr attr{.port_num = qp_port};
    attr.ah_attr = {.dlid = lid_of(port), .port_num = port};
    return ibv_modify_qp(qp, &attr, IBV_QP_AV | (qp_port != 0 ? IBV_QP_PORT : 0));
  }
};

TEST_F(TwoPorts, an_address_names_the_port_of_its_qp) {
  if (!has_two()) {
    EXPECT_EQ(run_again(kAdapters, "2"), 0);
    return;
  }
  ibv_qp* qp = connected(IBV_QPT_RC);
  EXPECT_EQ(give_address(qp, 2, 1), EINVAL);
  EXPECT_EQ(port_of(qp), 1);
  EXPECT_EQ(give_address(qp, 2), 0) << "a new address alone moves the QP to its port";
  EXPECT_EQ(port_of(qp), 2);
  EXPECT_EQ(give_address(qp, 1, 1), 0);
  EXPECT_EQ(port_of(qp), 1);
  ibv_qp* uc = connected(IBV_QPT_UC);
  EXPECT_EQ(give_address(uc, 2), EINVAL) << "a UC QP keeps its port";
  EXPECT_EQ(give_address(uc, 1), 0);
  EXPECT_EQ(port_of(uc), 1);
}

}  // namespace
}  // namespace weft::test
