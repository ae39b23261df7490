// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/sample"
)

// party is one of two HelmOps that hand over a release, each with its own manager.
type party struct {
	*bench
	desired model.Desired
	// adopts means that the party adopts the release; the other party uninstalls it.
	adopts bool
	// value is the value of the release that the party desires.
	value string
}

// decide decides by the current state of the cluster, with a clock that is slightly ahead.
func (p *party) decide() decide.Decision {
	later := time.Now().Add(2 * model.MinBackoff)
	if p.adopts {
		return decide.Next(p.observe(p.desired), p.desired, model.Policy{TakeOwnership: true}, model.Past{}, later)
	}
	return decide.Uninstall(p.observe(p.desired), p.desired, model.Policy{}, later)
}

// carryOut carries out a decision. The decision may be stale.
func (p *party) carryOut(decision decide.Decision) error {
	_, err := p.act(decision, p.desired, helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()),
		map[string]any{"cidr": p.value})
	if errors.Is(err, helmerr.ErrStale) {
		return nil
	}
	return err
}

// handOver is a combination of the actions of two parties.
type handOver struct {
	adopterFirst bool
	// unchanged means that the adoption changes nothing, so it only labels the record.
	unchanged bool
	// at is the request of the first party's action before which the second party acts; the first request is 0.
	at int
	// stale means that the second party decided before the first party began.
	stale bool
	// killed means that the manager of the first party ends at this request, and that another manager continues later.
	killed bool
}

func (h handOver) String() string {
	return fmt.Sprintf("adopter first %t, unchanged %t, at request %d, stale %t, killed %t", h.adopterFirst, h.unchanged,
		h.at, h.stale, h.killed)
}

// run hands over a release and returns the number of requests of the first party.
func (h handOver) run(t *testing.T) int {
	t.Helper()
	one := &bench{t: t, kube: newKube(t), namespace: namespaceOf(t)}
	one.reconnect(-1)
	other := &bench{t: t, kube: one.kube, namespace: one.namespace}
	other.reconnect(-1)
	former := &party{bench: one, desired: helmtest.DesiredFor(one.namespace, "demo", "a1", "v1"), value: "former"}
	next := &party{bench: other, desired: former.desired, adopts: true, value: "next"}
	if h.unchanged {
		next.value = former.value
	}
	next.desired.Owner, next.desired.UID = "default.next", "uid-next"
	one.converge(former.desired, helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "former"})

	first, second := former, next
	if h.adopterFirst {
		first, second = next, former
	}
	decision, before := first.decide(), second.decide()
	var requests atomic.Int64
	meanwhile := func() {
		if !h.stale {
			before = second.decide()
		}
		if err := second.carryOut(before); err != nil {
			t.Errorf("%s: the second party: %v", h, err)
		}
	}
	config := sharedServer.Server(t).RESTConfig()
	config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "/namespaces/"+one.namespace) {
				n := requests.Add(1) - 1
				if n == int64(h.at) {
					meanwhile()
				}
				if h.killed && n >= int64(h.at) {
					return nil, helmtest.ErrCut
				}
			}
			return base.RoundTrip(req)
		})
	}
	first.client, first.target.Config = New(testRunner), config
	if err := first.carryOut(decision); err != nil && !h.killed {
		t.Errorf("%s: the first party: %v", h, err)
	}
	first.reconnect(-1)
	for range 6 {
		for _, p := range []*party{former, next} {
			if err := p.carryOut(p.decide()); err != nil {
				t.Errorf("%s: afterwards: %v", h, err)
			}
		}
	}
	obs := next.observe(next.desired)
	if got := obs.State(next.desired); got != model.StateInSync {
		t.Errorf("%s: the release is %s: %+v", h, got, obs.Records)
	}
	deployed := 0
	for _, record := range obs.Records {
		if record.Status == "deployed" {
			deployed++
		}
	}
	value, _ := one.configMapValue("demo-value")
	kept, _ := one.configMapValue("first")
	if deployed != 1 || value != next.value || kept != "1" {
		t.Errorf("%s: %d revisions are deployed, the objects hold %q and %q: %+v", h, deployed, value, kept, obs.Records)
	}
	return int(requests.Load())
}

// TestIntegrationHandOver makes one HelmOp uninstall a release while another HelmOp adopts the release. The second
// action runs between two requests of the first action. The first action may be interrupted there. In the end, the
// adopting HelmOp has the release with all its objects.
func TestIntegrationHandOver(t *testing.T) {
	t.Parallel()
	for _, base := range []handOver{{}, {adopterFirst: true}, {unchanged: true}, {adopterFirst: true, unchanged: true}} {
		base.at = -1
		var all []handOver
		for at := range base.run(t) {
			for _, stale := range []bool{false, true} {
				for _, killed := range []bool{false, true} {
					h := base
					h.at, h.stale, h.killed = at, stale, killed
					all = append(all, h)
				}
			}
		}
		for _, h := range sample.Of(t, all) {
			h.run(t)
		}
	}
}

// TestIntegrationReinstalledRevisionIsStale checks that a decision is not carried out after the release was uninstalled
// and installed again. The new revision has the same number as the observed revision.
func TestIntegrationReinstalledRevisionIsStale(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"}
	b.converge(desired, chrt, values)
	former := desired
	desired.ValuesDigest = "v2"
	stale := map[string]decide.Decision{
		"upgrade":   b.decide(desired, model.Policy{}),
		"uninstall": decide.Uninstall(b.observe(former), former, model.Policy{}, time.Now()),
	}
	if _, err := b.act(stale["uninstall"], former, nil, nil); err != nil {
		t.Fatal(err)
	}
	desired.UID, values = "uid-again", map[string]any{"cidr": "2"}
	b.converge(desired, chrt, values)
	for name, decision := range stale {
		_, err := b.act(decision, desired, chrt, values)
		if !errors.Is(err, helmerr.ErrStale) {
			t.Errorf("%s upon an old decision: %v", name, err)
		}
	}
	b.wantRecords(desired, "1 deployed")
	b.wantConfigMap("demo-value", "2")
}

// TestIntegrationAdoptedRevisionIsStale checks that a decision is not carried out after another HelmOp has adopted the
// release, also if a new object of the first HelmOp has adopted it back. An adoption changes only the labels of the
// record.
func TestIntegrationAdoptedRevisionIsStale(t *testing.T) {
	b := newBench(t)
	former := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"}
	b.converge(former, chrt, values)
	next, again, changed := former, former, former
	next.Owner, next.UID, again.UID, changed.ValuesDigest = "default.next", "uid-next", "uid-again", "v2"
	upgrade := b.decide(changed, model.Policy{})
	tests := upgrade
	tests.Action = model.ActionTest
	uninstall := decide.Uninstall(b.observe(former), former, model.Policy{}, time.Now())
	for _, adopter := range []struct {
		model.Desired
		message string
	}{
		{next, `belongs to HelmOp "default.next"`},
		{again, fmt.Sprintf("belongs to another HelmOpRelease of HelmOp %q", former.Owner)},
	} {
		adopt := b.decide(adopter.Desired, model.Policy{TakeOwnership: true})
		if _, err := b.act(adopt, adopter.Desired, chrt, values); err != nil {
			t.Fatal(err)
		}
		b.wantRecords(adopter.Desired, "1 deployed")
		for _, stale := range []decide.Decision{upgrade, tests, uninstall} {
			_, err := b.act(stale, changed, chrt, map[string]any{"cidr": "2"})
			helmtest.WantError(t, err, helmerr.ErrStale, false, adopter.message)
		}
		b.wantRecords(adopter.Desired, "1 deployed")
		b.wantConfigMap("demo-value", "1")
	}
}
