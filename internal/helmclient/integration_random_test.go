// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drifttracking"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/sample"
)

const (
	// randomRounds is the default number of rounds of TestIntegrationRandom. HELMOP_ROUNDS overrides it.
	randomRounds = 6
	// randomSteps is the number of steps in a round.
	randomSteps = 14
	// maxRequests is the number of requests of an action with the chart of this test, and hookRequests the number of
	// further requests for its hook. Another step may happen before any of these requests.
	maxRequests, hookRequests = 16, 8
)

// randomStep is an event for a release. It depends only on the seed, so that a round can be repeated.
type randomStep struct {
	kind randomKind
	// party is the index of the party whose manager acts.
	party int
	// at is the request of the action before which meanwhile happens. kill ends the manager at this request. sent means
	// that the API server still receives this request, and only the response is lost.
	at         int
	kill, sent bool
	meanwhile  randomKind
}

type randomKind string

const (
	nothing    randomKind = "nothing"
	change     randomKind = "change the values"
	handOn     randomKind = "hand the release over"
	handOnSame randomKind = "hand the release over without changes"
	act        randomKind = "act"
	remember   randomKind = "remember a decision"
	actStale   randomKind = "act on a remembered decision"
	upgrade    randomKind = "helm upgrade"
	uninstall  randomKind = "helm uninstall"
	rollback   randomKind = "helm rollback"
	correct    randomKind = "edit an object and correct it"
	waitLong   randomKind = "wait for 20 minutes"
	sameActs   randomKind = "the next leader of the same manager acts"
	otherActs  randomKind = "the other manager acts"
	otherStale randomKind = "the other manager acts on a remembered decision"
	otherTakes randomKind = "the other HelmOp takes the release over"
	askRetry   randomKind = "request a retry"
)

// randomSetting is the same for all steps of a round.
type randomSetting struct {
	// contest means that both HelmOps desire the release all the time, with install.takeOwnership. Otherwise, only one of
	// them desires the release at a time.
	contest bool
	// hook adds a hook to the chart.
	hook bool
}

func (s randomSetting) requests() int {
	if s.hook {
		return maxRequests + hookRequests
	}
	return maxRequests
}

func (s randomSetting) templates() map[string]string {
	templates := helmtest.TwoConfigMaps()
	if s.hook {
		templates["hook.yaml"] = randomHook
	}
	return templates
}

// randomHook is a hook of each action. Helm deletes it before the next action creates it again.
const randomHook = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: pre-install,post-install,pre-upgrade,post-upgrade,pre-rollback,pre-delete
`

func (s randomStep) String() string {
	text := fmt.Sprintf("%s (%d)", s.kind, s.party)
	if s.kill {
		text += fmt.Sprintf(", killed at request %d (sent: %t)", s.at, s.sent)
	}
	if s.meanwhile != nothing {
		text += fmt.Sprintf(", at request %d: %s", s.at, s.meanwhile)
	}
	return text
}

// randomPlan returns the steps of a round. In half of the rounds, no person uses the helm command: after such a use,
// objects may be missing.
func randomPlan(r *rand.Rand, setting randomSetting) []randomStep {
	kinds := []randomKind{
		change, change, change, act, act, act, act, act, act, remember, remember, actStale, actStale, waitLong, correct,
		correct, correct,
	}
	if setting.contest {
		kinds = append(kinds, askRetry)
	} else {
		kinds = append(kinds, handOn, handOn, handOnSame, handOnSame)
	}
	within := []randomKind{nothing, nothing, otherActs, otherActs, otherActs, otherStale, sameActs, sameActs}
	if r.IntN(2) == 0 {
		kinds, within = append(kinds, upgrade, uninstall, rollback), append(within, upgrade, uninstall)
	}
	// A round begins with a release.
	steps := make([]randomStep, randomSteps)
	steps[0] = randomStep{kind: act, meanwhile: nothing}
	for i := 1; i < len(steps); i++ {
		s := randomStep{kind: kinds[r.IntN(len(kinds))], party: r.IntN(2), at: r.IntN(setting.requests()), meanwhile: nothing}
		if steps[i-1].kind.isHandOver() && r.IntN(4) > 0 {
			// While one HelmOp uninstalls the release, the other one takes it over. The first requests decide which of
			// them succeeds.
			s.kind, s.at = act, r.IntN(setting.requests()/2)
		}
		if s.acts() || s.kind.isHelm() {
			s.kill = r.IntN(3) == 0
			s.meanwhile = within[r.IntN(len(within))]
		}
		if s.kind == correct {
			s.kill, s.meanwhile = r.IntN(3) == 0, append(within, otherTakes, otherTakes, otherTakes)[r.IntN(len(within)+3)]
		}
		if setting.contest && s.meanwhile == otherTakes {
			s.meanwhile = otherActs
		}
		s.sent = s.kill && r.IntN(2) == 0
		steps[i] = s
	}
	return steps
}

func (s randomStep) acts() bool { return s.kind == act || s.kind == actStale }

// isHelm reports whether the event is a use of the helm command.
func (k randomKind) isHelm() bool { return k == upgrade || k == uninstall || k == rollback }

func (k randomKind) isHandOver() bool { return k == handOn || k == handOnSame }

// randomParty is a HelmOp with its manager.
type randomParty struct {
	*bench
	desired model.Desired
	// version is the version in the objects of the party's release.
	version int
	// gone means that the party's release is uninstalled or left to the other party.
	gone bool
	// remembered is a decision of an earlier step.
	remembered *decide.Decision
	// had means that the party knows that it had the release, and has not requested a retry since. It counts in a contest
	// only.
	had bool
}

func (p *randomParty) value() string { return fmt.Sprintf("version %d", p.version) }

// newRelease gives the party a new object for the release, as after a deletion. number must be another for each object.
func (p *randomParty) newRelease(number int) {
	p.gone, p.remembered = false, nil
	p.desired.UID = fmt.Sprintf("%s-%d", p.desired.Owner, number)
}

func (p *randomParty) setVersion(version int) {
	p.version = version
	p.desired.ValuesDigest = fmt.Sprintf("v%d", version)
}

// randomRound is a round with two HelmOps and a person with the helm command.
type randomRound struct {
	randomSetting
	t       *testing.T
	parties [2]*randomParty
	// watcher reads the release for the checks: its requests do not count as requests of a party.
	watcher *bench
	// wanted is the index of the party that desires the release. In a contest, it is the owner of the newest record.
	wanted  int
	version int
	// later is how far the clock of decisions is ahead.
	later time.Duration
	// helmUsed means that a person used the helm command after the release last had its desired state and all its
	// objects.
	helmUsed bool
	// kept are the objects that must remain until the end of the step.
	kept map[string]types.UID
	log  []string
}

func newRandomRound(t *testing.T, namespace string, setting randomSetting) *randomRound {
	t.Helper()
	r := &randomRound{randomSetting: setting, t: t, version: 1}
	kube := newKube(t)
	r.watcher = &bench{t: t, kube: kube, namespace: namespace}
	r.watcher.reconnect(-1)
	for i := range r.parties {
		p := &randomParty{bench: &bench{t: t, kube: kube, namespace: namespace}, gone: i != 0 && !setting.contest}
		p.reconnect(-1)
		p.desired = helmtest.DesiredFor(namespace, "demo", "a1", "v1")
		p.desired.Owner, p.desired.ManagementCluster = fmt.Sprintf("default.party-%d", i), "here"
		p.desired.UID = p.desired.Owner
		p.setVersion(1)
		r.parties[i] = p
	}
	return r
}

func (r *randomRound) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// decide decides for a party by the current state of the cluster.
func (r *randomRound) decide(p *randomParty, past model.Past) (decide.Decision, error) {
	obs, err := p.client.Observe(r.t.Context(), p.target, p.desired.Namespace, p.desired.Name)
	if err != nil {
		return decide.Decision{}, err
	}
	now := time.Now().Add(r.later)
	if r.contest {
		past.WasOurs = p.had
		p.had = p.had || obs.State(p.desired) != model.StateForeign && obs.Owner() != ""
	}
	if r.contest || p == r.parties[r.wanted] {
		policy := model.Policy{TakeOwnership: true, Install: model.FailurePolicy{Retries: new(int)},
			Upgrade: model.FailurePolicy{Retries: new(int)}}
		*policy.Install.Retries, *policy.Upgrade.Retries = -1, -1
		return decide.Next(obs, p.desired, policy, past, now), nil
	}
	return decide.Uninstall(obs, p.desired, model.Policy{}, now), nil
}

// carryOut carries out a decision of a party. A stale decision changes nothing. A decision during an action of the
// other party also changes nothing.
func (r *randomRound) carryOut(p *randomParty, decision decide.Decision) {
	if _, ok := actionTimeout(decision.Action, p.options); !ok {
		p.gone = p.gone || !r.contest && p != r.parties[r.wanted] && decision.Action != model.ActionWait
		r.note("  %s: %s (%s)", p.desired.Owner, decision.Action, decision.Message)
		return
	}
	result, err := p.act(decision, p.desired, helmtest.NewChart("1.0.0", r.templates()), map[string]any{"cidr": p.value()})
	p.had = p.had || err == nil && result.Revision > 0
	r.note("  %s: %s of Helm revision %d (%s): %v", p.desired.Owner, decision.Action, decision.FromRevision,
		decision.Reason,
		err)
}

// actNow makes a party decide and act. A party whose release is gone does nothing.
func (r *randomRound) actNow(p *randomParty) {
	if p.gone {
		return
	}
	if decision, err := r.decide(p, model.Past{}); err == nil {
		r.carryOut(p, decision)
	}
}

func (r *randomRound) actRemembered(p *randomParty) {
	if decision := p.remembered; decision != nil {
		p.remembered = nil
		r.carryOut(p, *decision)
	}
}

func (r *randomRound) run(s randomStep) {
	if r.parties[s.party].gone {
		// If one HelmOp does not desire the release, the other HelmOp acts.
		s.party = 1 - s.party
	}
	r.note("%s", s)
	p := r.parties[s.party]
	switch s.kind {
	case change:
		r.version++
		if !r.contest {
			p = r.parties[r.wanted]
		}
		p.setVersion(r.version)
	case askRetry:
		p.had = false
	case handOn, handOnSame:
		r.handOver(s.kind == handOnSame)
	case waitLong:
		r.later += 20 * time.Minute
	case remember:
		if decision, err := r.decide(p, model.Past{}); err == nil && !p.gone {
			p.remembered = &decision
		}
	default:
		r.interrupted(s)
	}
}

// handOver makes the other HelmOp desire the release. Without changes, it adopts a release that is in sync by labels.
func (r *randomRound) handOver(unchanged bool) {
	version := r.parties[r.wanted].version
	r.version++
	r.wanted = 1 - r.wanted
	next := r.parties[r.wanted]
	if !unchanged {
		version = r.version
	}
	next.setVersion(version)
	next.newRelease(r.version)
}

// interrupted carries out the action of a step, during which another step may happen.
func (r *randomRound) interrupted(s randomStep) {
	p := r.parties[s.party]
	var requests atomic.Int64
	// Requests may be concurrent, and the other process of a manager changes the party.
	path := "/namespaces/" + p.namespace
	wrap := func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, path) {
				n := int(requests.Add(1)) - 1
				if n == s.at {
					r.meanwhile(s)
				}
				if s.kill && n >= s.at {
					return nil, cutRequest(base, req, s.sent && n == s.at)
				}
			}
			return base.RoundTrip(req)
		})
	}
	config := sharedServer.Server(r.t).RESTConfig()
	config.WrapTransport = wrap
	if s.kind.isHelm() {
		r.helm(p, s.kind, wrap)
		return
	}
	p.client, p.target.Config = New(testRunner), config
	switch s.kind {
	case act:
		r.actNow(p)
	case correct:
		// The object may not exist.
		edited := p.editObject()
		left, err := p.correctDrift(p.desired)
		r.note("  edited: %v, corrected: %v, left: %s", edited, err, drifttracking.List(left))
	default:
		r.actRemembered(p)
	}
	p.reconnect(-1)
}

// cutRequest returns the error of a request whose response is lost. If the request is sent, the API server carries it
// out.
func cutRequest(base http.RoundTripper, req *http.Request, sent bool) error {
	if sent {
		if response, err := base.RoundTrip(req); err == nil {
			_ = response.Body.Close()
		}
	}
	return helmtest.ErrCut
}

func (r *randomRound) meanwhile(s randomStep) {
	other := r.parties[1-s.party]
	// A running action is recent. The earlier lead of the clock does not apply.
	later := r.later
	r.later = 0
	defer func() { r.later = later }()
	switch s.meanwhile {
	case sameActs:
		r.nextLeaderActs(r.parties[s.party])
	case otherActs:
		r.actNow(other)
	case otherStale:
		r.actRemembered(other)
	case otherTakes:
		if other != r.parties[r.wanted] {
			r.handOver(false)
		}
		r.actNow(other)
	case upgrade, uninstall:
		r.helm(other, s.meanwhile, nil)
	}
	if s.meanwhile == otherTakes {
		r.kept = nil
	}
	r.noteKept()
}

// nextLeaderActs makes another process of the party's manager decide and act. The action of the former leader is
// frozen, and continues afterwards.
func (r *randomRound) nextLeaderActs(p *randomParty) {
	former := *p.bench
	p.reconnect(-1)
	r.actNow(p)
	*p.bench = former
}

func (r *randomRound) helm(p *randomParty, kind randomKind, wrap func(http.RoundTripper) http.RoundTripper) {
	r.helmUsed = true
	r.note("  %s: %v", kind, p.helm(kind, r.templates(), wrap))
}

// helm runs an action of the helm command.
func (p *randomParty) helm(kind randomKind, templates map[string]string,
	wrap func(http.RoundTripper) http.RoundTripper,
) error {
	config := p.humanThrough(wrap)
	switch kind {
	case upgrade:
		upgrade := action.NewUpgrade(config)
		upgrade.Namespace = p.namespace
		_, err := upgrade.Run("demo", helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "human"})
		return err
	case rollback:
		return action.NewRollback(config).Run("demo")
	default:
		_, err := action.NewUninstall(config).Run("demo")
		return err
	}
}

// objects returns the UIDs of the existing objects of the release.
func (r *randomRound) objects() map[string]types.UID {
	r.t.Helper()
	uids := map[string]types.UID{}
	list, err := r.parties[0].kube.CoreV1().ConfigMaps(r.parties[0].namespace).List(r.t.Context(),
		metav1.ListOptions{LabelSelector: inventory.ManagedByLabel + "=" + inventory.ManagedByHelm})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		uids[list.Items[i].Name] = list.Items[i].UID
	}
	return uids
}

// isInSync reports whether the release has the desired state of its party.
func (r *randomRound) isInSync() bool {
	r.findOwner()
	p := r.parties[r.wanted]
	return !p.gone && r.watcher.observe(p.desired).State(p.desired) == model.StateInSync
}

// findOwner finds the party that has the release in a contest.
func (r *randomRound) findOwner() {
	if !r.contest {
		return
	}
	owner := r.watcher.observe(r.parties[0].desired).Owner()
	for i, p := range r.parties {
		if model.OwnerLabel(p.desired.Owner) == owner {
			r.wanted = i
		}
	}
}

// errLost means that desired objects of the owner of the release were deleted.
var errLost = errors.New("objects of a release in sync were deleted")

// hasLost reports whether the release has its desired state according to its record, but not all its objects. Only a
// person with the helm command may cause this. Otherwise, hasLost returns an error: HelmOp deleted objects that their
// owner desired.
func (r *randomRound) hasLost() (bool, error) {
	if !r.isInSync() {
		return false, nil
	}
	objects := r.objects()
	switch {
	case len(objects) == len(helmtest.TwoConfigMaps()):
		r.helmUsed = false
		return false, nil
	case r.helmUsed:
		return true, nil
	}
	return true, fmt.Errorf("%w: %d are left, and no person used the helm command", errLost, len(objects))
}

// noteKept notes the objects of a release that has its desired state. In the same step, no HelmOp may delete them.
func (r *randomRound) noteKept() {
	if r.kept == nil && r.isInSync() {
		r.kept = r.objects()
	}
}

// steps carries out the steps of a plan and checks after each that it deleted no desired object of the owner. Only the
// helm command may delete such objects.
func (r *randomRound) steps(plan []randomStep) error {
	for _, s := range plan {
		r.kept = nil
		r.noteKept()
		r.run(s)
		if _, err := r.hasLost(); err != nil {
			return fmt.Errorf("%w, by: %s", err, s)
		}
		if s.kind == uninstall || s.meanwhile == uninstall {
			continue
		}
		after := r.objects()
		for name, uid := range r.kept {
			if after[name] != uid {
				return fmt.Errorf("%w: %s, by: %s", errLost, name, s)
			}
		}
	}
	return nil
}

// settle makes both managers act until one of them has the release and the other one leaves it alone. Each of them may
// take the release over once more, because a killed manager may not know that it had the release.
func (r *randomRound) settle() error {
	for i := range 20 {
		past, err := r.pastIn(i)
		if err != nil {
			return err
		}
		settled := 0
		for _, p := range r.parties {
			decision, err := r.decide(p, past)
			if err != nil {
				return err
			}
			switch decision.Action {
			case model.ActionNone, model.ActionRefuse:
				settled++
			case model.ActionWait:
				r.later += max(decision.RequeueAfter, 20*time.Minute)
			}
			r.carryOut(p, decision)
		}
		if settled < len(r.parties) {
			continue
		}
		r.findOwner()
		p, other := r.parties[r.wanted], r.parties[1-r.wanted]
		refused, err := r.decide(other, model.Past{})
		if err := errors.Join(err, r.correctAndCheck(p)); err != nil {
			return err
		}
		if refused.Action != model.ActionRefuse || !strings.Contains(refused.Message, p.desired.Owner) {
			return fmt.Errorf("the loser does not name the owner: %s (%s)", refused.Action, refused.Message)
		}
		return nil
	}
	return errors.New("the contest does not end")
}

// converge makes both managers act until the release has its desired state. If a person deleted objects with the helm
// command during an upgrade, the manager detects this and re-creates the objects on request.
func (r *randomRound) converge() error {
	p, other := r.parties[r.wanted], r.parties[1-r.wanted]
	for i := range 20 {
		r.actNow(other)
		past, err := r.pastIn(i)
		if err != nil {
			return err
		}
		decision, err := r.decide(p, past)
		if err != nil {
			return err
		}
		switch decision.Action {
		case model.ActionNone:
			if other.gone {
				return r.correctAndCheck(p)
			}
		case model.ActionWait:
			r.later += max(decision.RequeueAfter, 20*time.Minute)
		}
		r.carryOut(p, decision)
	}
	return errors.New("no end")
}

// pastIn returns the past for a try at the end of a round. If objects are missing, the past requests them again.
func (r *randomRound) pastIn(try int) (model.Past, error) {
	lost, err := r.hasLost()
	if err != nil || !lost {
		return model.Past{}, err
	}
	return model.Past{Restore: true, Request: fmt.Sprintf("%x", try)}, nil
}

// correctAndCheck corrects drift of a release that has its desired state, and checks the release.
func (r *randomRound) correctAndCheck(p *randomParty) error {
	left, err := p.correctDrift(p.desired)
	if len(left) > 0 {
		return fmt.Errorf("not corrected: %s", drifttracking.List(left))
	}
	return errors.Join(err, r.check())
}

func (r *randomRound) check() error {
	p := r.parties[r.wanted]
	obs := p.observe(p.desired)
	var deployed []model.Record
	for i, record := range obs.Records {
		if record.Status == "deployed" {
			deployed = append(deployed, record)
		}
		if i > 0 && isRepeated(obs.Records[i-1], record) {
			return fmt.Errorf("Helm revision %d was made from what Helm revision %d had deployed", obs.Records[i-1].Revision,
				record.Revision)
		}
	}
	value, _ := p.configMapValue("demo-value")
	kept, _ := p.configMapValue("first")
	switch {
	case len(deployed) != 1 || deployed[0].Owner != p.desired.Owner || !deployed[0].MadeFrom(p.desired):
		return fmt.Errorf("deployed are %+v", deployed)
	case value != p.value() || kept != "1":
		return fmt.Errorf("the objects hold %q and %q, want %q and \"1\"", value, kept, p.value())
	}
	return nil
}

// isRepeated reports whether a revision repeats the previous revision without a reason. Both have the same state and
// the same object, no retry was requested, and the previous revision was deployed.
func isRepeated(newer, older model.Record) bool {
	return newer.Revision == older.Revision+1 && newer.Request == "" && newer.Authentic() && older.Authentic() &&
		older.WasApplied() &&
		newer.UID == older.UID && newer.Attempt() == older.Attempt()
}

// TestIntegrationRandom makes two HelmOps, each with its own manager, hand over a release repeatedly and change the
// release. They also act on observations of earlier steps, and correct edited objects. Managers are killed between
// requests, and responses are lost. A frozen leader continues after the next leader has acted. In half of the rounds, a
// person uses the helm command, and in half of them, the chart has a hook. In a third of the rounds, both HelmOps want
// the release at the same time. In the end, one HelmOp has exactly one release with all its objects. HelmOp deleted no
// object that its owner desired.
//
// HELMOP_ROUNDS is the number of rounds. A failure prints HELMOP_SEED, which repeats a round.
func TestIntegrationRandom(t *testing.T) {
	rounds := randomRounds
	if n, err := strconv.Atoi(os.Getenv("HELMOP_ROUNDS")); err == nil && n > 0 {
		rounds = n
	}
	for i := range rounds {
		seed := sample.Seed() + uint64(i)
		t.Run(fmt.Sprintf("round-%d", i), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			setting := randomSetting{contest: seed%3 == 0, hook: random.IntN(2) == 0}
			r := newRandomRound(t, namespaceOf(t), setting)
			err := r.steps(randomPlan(random, setting))
			if err == nil {
				end := r.converge
				if setting.contest {
					end = r.settle
				}
				err = end()
			}
			t.Logf("HELMOP_SEED=%d HELMOP_ROUNDS=1 repeats this plan:\n%s", seed, strings.Join(r.log, "\n"))
			if err != nil {
				p := r.parties[r.wanted]
				t.Errorf("%v; the history is %+v", err, p.observe(p.desired).Records)
			}
		})
	}
}
