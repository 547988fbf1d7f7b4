// Queue pairs: creation, attributes, end.
#include <infiniband/verbs.h>

#include <algorithm>
#include <memory>

#include "verbs/addresses.h"
#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/refusals.h"
#include "verbs/objects.h"
#include "verbs/process/process_node.h"
#include "verbs/qp_attr.h"
#include "verbs/work_batch.h"

namespace weft::verbs {
namespace {

constexpr uint32_t kKnownInit = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;

/// The parameters of a new QP, from either of the two init structs.
struct QpRequest {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_xrcd* xrcd = nullptr;  // for an XRC target, which has neither PD nor queues
  ibv_qp_init_attr init{};
  bool extended = false;
};

bool is_offered(ibv_qp_type type) noexcept {
  return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD || type == IBV_QPT_XRC_SEND ||
         type == IBV_QPT_XRC_RECV;
}

/// What only this library can check: the adapter's QPs have other types too, and the same room for inline
/// data.
Refusal check(const QpRequest& request, uint32_t inline_most) noexcept {
  const ibv_qp_init_attr& init = request.init;
  const bool target = init.qp_type == IBV_QPT_XRC_RECV;
  if (!is_offered(init.qp_type))
    return {Reason::kNoService, "create_qp: qp_type {}: RC (2), UC (3), UD (4) and XRC (9, 10) are supported",
            static_cast<uint64_t>(init.qp_type)};
  if (target != (request.xrcd != nullptr))
    return {Reason::kNotOfService,
            "create_qp: an XRC domain is needed for an XRC target and allowed for no other QP"};
  if (target) return {};
  if (request.pd == nullptr) return {Reason::kMissingObject, "create_qp: needs a PD"};
  if (init.cap.max_inline_data > inline_most)
    return {Reason::kBadSize, "create_qp: max_inline_data {}: at most {}", init.cap.max_inline_data,
            inline_most};
  return {};
}

/// With an SRQ the sizes of the receive queue are ignored (man ibv_create_qp, NOTES).
adapter::QpConfig config_of(const ibv_qp_init_attr& init) noexcept {
  const bool shared = init.srq != nullptr;
  adapter::QpConfig out;
  out.type = static_cast<adapter::QpType>(init.qp_type);
  out.send_wqes = std::max(init.cap.max_send_wr, 1U);
  out.recv_wqes = shared ? 1U : std::max(init.cap.max_recv_wr, 1U);
  out.sges = std::max({init.cap.max_send_sge, shared ? 0U : init.cap.max_recv_sge, 1U});
  out.signal_all = init.sq_sig_all != 0;
  out.empty_lists = true;
  out.grh_space = init.qp_type == IBV_QPT_UD;
  return out;
}

ibv_qp_cap cap_of(const adapter::QpConfig& config, const ibv_qp_init_attr& init,
                  uint32_t inline_bytes) noexcept {
  const bool shared = init.srq != nullptr;
  return {.max_send_wr = config.send_wqes,
          .max_recv_wr = shared ? 0 : config.recv_wqes,
          .max_send_sge = config.sges,
          .max_recv_sge = shared ? 0 : config.sges,
          .max_inline_data = inline_bytes};
}

hca::Made<hca::Qp> create(const QpRequest& request, const adapter::QpConfig& config, Qp& user) {
  hca::Context& context = *ours(request.context).context;
  if (request.xrcd != nullptr)
    return context.create_target(*ours<Xrcd>(request.xrcd).object,
                                 {.config = config, .user = &user, .shared = user.kept});
  const ibv_qp_init_attr& init = request.init;
  return context.create_qp(*ours<Pd>(request.pd).object,
                           {.send_cq = init.send_cq != nullptr ? ours(init.send_cq).object : nullptr,
                            .recv_cq = init.recv_cq != nullptr ? ours(init.recv_cq).object : nullptr,
                            .srq = init.srq != nullptr ? ours<Srq>(init.srq).object : nullptr,
                            .config = config,
                            .user = &user});
}

/// Fills the fields of the C struct that programs read.
void show(const QpRequest& request, Qp& out) noexcept {
  const ibv_qp_init_attr& init = request.init;
  ibv_qp& base = out.c.qp_base;
  base.context = request.context;
  base.qp_context = init.qp_context;
  base.pd = request.pd;
  base.send_cq = init.send_cq;
  base.recv_cq = init.recv_cq;
  base.srq = init.srq;
  base.handle = base.qp_num = out.object->number().value();
  base.state = IBV_QPS_RESET;
  base.qp_type = init.qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
}

Qp* make_qp(QpRequest& request, ibv_qp_cap& cap) {
  const OpenContext& opened = ours(request.context);
  ibv_qp_init_attr& init = request.init;
  if (init.qp_type == IBV_QPT_XRC_SEND && init.recv_cq == nullptr) init.recv_cq = init.send_cq;
  const Refusal unfit = check(request, opened.limits->inline_bytes);
  if (unfit.reason() != Reason::kOk) return no_object(unfit, "ibv_create_qp");
  auto out = std::make_unique<Qp>();
  std::unique_ptr<WorkBatch> batch;
  if (request.extended) {
    batch = std::make_unique<WorkBatch>();
    batch->lock.set_needed(request.pd == nullptr || ours<Pd>(request.pd).thread == nullptr);
  }
  const adapter::QpConfig config = config_of(init);
  out->kept = std::make_shared<KeptAttr>();
  out->kept->cap = cap_of(config, init, opened.limits->inline_bytes);
  out->kept->sq_sig_all = init.sq_sig_all;
  const hca::Made<hca::Qp> made = create(request, config, *out);
  if (made.object == nullptr) return no_object(made.refusal, "ibv_create_qp");
  out->object = made.object;
  out->domain = use_parent(request.pd);
  out->cap = cap = out->kept->cap;
  out->batch = batch.release();
  show(request, *out);
  if (request.extended) set_work_calls(out->c);
  return out.release();
}

/// Programs set attributes for both XRC roles that only one role has: an initiator answers no requests, a
/// target sends none. Drops the attributes that the role does not have.
int meant_mask(ibv_qp_type type, int mask) noexcept {
  if (type == IBV_QPT_XRC_SEND) return mask & ~(IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC);
  if (type == IBV_QPT_XRC_RECV)
    return mask & ~(IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  return mask;
}

[[gnu::cold]] void explain_change(Qp& qp, Reason why, const QpChange& change) {
  if (!explains()) return;
  adapter::QpAttr now;
  adapter::QpConfig config;
  if (qp.object->query(now, config) != weft::Reason::kOk)
    return explain("ibv_modify_qp: QP {:#x}: {}", qp.c.qp_base.qp_num, to_string(why));
  const uint32_t ports = ours(qp.c.qp_base.context).node->device().ports();
  explain("ibv_modify_qp: QP {:#x}: {}", qp.c.qp_base.qp_num,
          change_words(why, qp, now.state, change.attr, change.mask, ports));
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
  return guarded(static_cast<ibv_qp*>(nullptr), [&]() -> ibv_qp* {
    const bool flags = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0;
    if ((attr->comp_mask & ~kKnownInit) != 0 || flags) {
      explain(
          "ibv_create_qp_ex: comp_mask {:#x}, create_flags {:#x}: only PD, XRC domain and send operations "
          "are supported",
          attr->comp_mask, flags ? attr->create_flags : 0);
      return no_object(EOPNOTSUPP);
    }
    const bool ops = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if (ops && (attr->send_ops_flags & ~possible_operations(attr->qp_type)) != 0) {
      explain("ibv_create_qp_ex: send_ops_flags {:#x}: only {:#x} are supported", attr->send_ops_flags,
              possible_operations(attr->qp_type));
      return no_object(EOPNOTSUPP);
    }
    const bool domain = (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0;
    QpRequest request{.context = context,
                      .pd = (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr->pd : nullptr,
                      .xrcd = domain ? attr->xrcd : nullptr,
                      .init = {attr->qp_context, attr->send_cq, attr->recv_cq, attr->srq, attr->cap,
                               attr->qp_type, attr->sq_sig_all},
                      .extended = ops};
    Qp* made = make_qp(request, attr->cap);
    return made != nullptr ? &made->c.qp_base : nullptr;
  });
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) noexcept {
  return guarded(static_cast<ibv_qp*>(nullptr), [&]() -> ibv_qp* {
    constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    const uint32_t mask = attr->comp_mask;
    if ((mask & kNeeded) != kNeeded || (mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) != 0 ||
        attr->qp_type != IBV_QPT_XRC_RECV) {
      explain("ibv_open_qp: comp_mask {:#x}, qp_type {}: needs an XRC target, its number and its domain",
              mask, static_cast<int>(attr->qp_type));
      return no_object(EINVAL);
    }
    auto out = std::make_unique<Qp>();
    const hca::Made<hca::Qp> made =
        ours(context).context->open_target(*ours<Xrcd>(attr->xrcd).object, Qpn(attr->qp_num), out.get());
    if (made.object == nullptr) return no_object(made.refusal, "ibv_open_qp: qp_num {:#x}", attr->qp_num);
    out->object = made.object;
    out->kept = std::static_pointer_cast<KeptAttr>(made.object->shared());
    out->cap = out->kept->cap;
    QpRequest request{.context = context, .xrcd = attr->xrcd};
    request.init.qp_type = attr->qp_type;
    request.init.qp_context = (mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attr->qp_context : nullptr;
    show(request, *out);
    out->c.qp_base.state = IBV_QPS_UNKNOWN;  // until a call of this handle tells
    return &out.release()->c.qp_base;
  });
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside
namespace adapter = weft::adapter;
namespace hca = weft::hca;

WEFT_VERBS_API ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  return guarded(static_cast<ibv_qp*>(nullptr), [&]() -> ibv_qp* {
    QpRequest request{.context = pd->context, .pd = pd, .init = *init};
    Qp* made = make_qp(request, init->cap);
    return made != nullptr ? &made->c.qp_base : nullptr;
  });
}

WEFT_VERBS_API ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  Qp& pair = ours(qp);
  return pair.batch != nullptr ? &pair.c : nullptr;
}

namespace {

/// For changes that depend on the QP's state or port. Others need no answer of the adapter.
ChangeBasis basis_of(const Qp& pair, const ibv_qp_attr& attr, int mask) {
  const ibv_qp& qp = pair.c.qp_base;
  ProcessNode& node = *ours(qp.context).node;
  ChangeBasis out{.type = qp.qp_type,
                  .state = adapter::QpState::kRts,
                  .ports = node.device().ports(),
                  .gids = gid_count(node)};
  const bool fails = (mask & IBV_QP_STATE) != 0 && raw(attr.qp_state) == IBV_QPS_ERR;
  if (!fails && (mask & IBV_QP_AV) == 0) return out;
  adapter::QpAttr now;
  adapter::QpConfig config;
  if (pair.object->query(now, config) != weft::Reason::kOk) return out;  // modify() will say why
  out.state = now.state;
  out.port = now.port;
  return out;
}

/// If the QP has migrated, its alternate path becomes the path in force; call before a path changes.
void settle(Qp& pair) {
  adapter::QpAttr now;
  adapter::QpConfig config;
  if (pair.object->query(now, config) == weft::Reason::kOk) settle(*pair.kept, now);
}

}  // namespace

WEFT_VERBS_API int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int given_mask) {
  return guarded(ENOMEM, [&] {
    Qp& pair = ours(qp);
    const int mask = meant_mask(qp->qp_type, given_mask);
    const QpChange change = qp_change_of(*attr, mask, basis_of(pair, *attr, mask));
    if (change.fault != nullptr) {
      explain("ibv_modify_qp: QP {:#x}: {}, and is {}", qp->qp_num, change.fault, change.value);
      return fail(change.error);
    }
    if ((mask & (IBV_QP_ALT_PATH | IBV_QP_AV | IBV_QP_TIMEOUT)) != 0) settle(pair);
    const weft::Reason why = pair.object->modify(change.attr, change.mask);
    if (why != weft::Reason::kOk) {
      explain_change(pair, why, change);
      return fail(why);
    }
    remember(*pair.kept, *attr, mask);
    if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
    return 0;
  });
}

/// Returns all attributes. `mask` only decides whether the state in the program's own struct is renewed.
WEFT_VERBS_API int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  Qp& pair = ours(qp);
  adapter::QpAttr state;
  adapter::QpConfig config;
  const weft::Reason why = pair.object->query(state, config);
  if (why != weft::Reason::kOk) return fail(why);
  settle(*pair.kept, state);
  answer_query(*pair.kept, state, *attr);
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  *init = {.qp_context = qp->qp_context,
           .send_cq = qp->send_cq,
           .recv_cq = qp->recv_cq,
           .srq = qp->srq,
           .cap = pair.cap,
           .qp_type = qp->qp_type,
           .sq_sig_all = pair.kept->sq_sig_all};
  return 0;
}

WEFT_VERBS_API int ibv_destroy_qp(ibv_qp* qp) {
  Qp& pair = ours(qp);
  const weft::Reason why = ours(qp->context).context->destroy(pair.object);
  if (why != weft::Reason::kOk) return fail(why, "ibv_destroy_qp");
  const std::unique_ptr<WorkBatch> batch(pair.batch);
  pthread_mutex_destroy(&qp->mutex);
  pthread_cond_destroy(&qp->cond);
  const std::unique_ptr<Qp> owned(&pair);
  return 0;
}

WEFT_VERBS_API int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  const weft::Gid group = group_gid(*gid);
  const bool roce = ours(qp->context).node->settings().roce;
  const weft::Reason why = ours(qp).object->attach_mcast(group, group_lid(group, lid, roce));
  const bool no_group = why == weft::Reason::kNotOfService || why == weft::Reason::kBadAddress;
  return fail_with(
      why, no_group ? "needs a UD QP, a multicast GID and on InfiniBand a multicast LID" : to_string(why),
      "ibv_attach_mcast: QP {:#x}, mlid {:#x}", qp->qp_num, lid);
}

WEFT_VERBS_API int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  const weft::Gid group = group_gid(*gid);
  const bool roce = ours(qp->context).node->settings().roce;
  return fail(ours(qp).object->detach_mcast(group, group_lid(group, lid, roce)),
              "ibv_detach_mcast: QP {:#x}, mlid {:#x}", qp->qp_num, lid);
}

WEFT_VERBS_API int ibv_query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*opcode*/, uint32_t /*flags*/) {
  return 0;
}
