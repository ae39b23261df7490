// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// In these tests, the current revision is 7 and the last known good revision is 6, unless a case sets others.

func release(content string) *rollout.Release {
	return &rollout.Release{Identity: "ns/a", Content: content}
}

// member returns a Cluster with a release of a HelmOp revision. The content of the release is the number of the
// revision. With revision 0, the Cluster has no release.
func member(name string, revision int64, changes ...func(*rollout.Cluster)) rollout.Cluster {
	c := rollout.Cluster{Name: name, Selected: true, Initialized: true, Target: release("7"), Good: release("6")}
	if revision > 0 {
		c.Own = release(fmt.Sprint(revision))
		c.Child = &rollout.Child{Release: *c.Own, Revision: revision}
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

// changed gives all releases of a Cluster other content, because the Cluster itself changed.
func changed(c *rollout.Cluster) {
	for _, r := range []**rollout.Release{&c.Target, &c.Good, &c.Own} {
		if *r != nil {
			*r = release((*r).Content + " changed")
		}
	}
}

func unknown(c *rollout.Cluster) { c.Target = nil }

func sameUnderBoth(c *rollout.Cluster) { c.Target = c.Own }

// approvedAt is the time of all approvals.
var approvedAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// joined makes a Cluster new at a time after the approvals.
func joined(after time.Duration) func(*rollout.Cluster) {
	return func(c *rollout.Cluster) { c.Child.Joined, c.Child.AssignedAt = true, approvedAt.Add(after) }
}

// approved returns a revision with the approval of releases: each is the name of a Cluster and its content.
func approved(releases ...string) Revision {
	var hashes []string
	for _, r := range releases {
		cluster, content, _ := strings.Cut(r, " ")
		hashes = append(hashes, Hash(cluster, release(content)))
	}
	return Revision{Approval: &addonsv1.RevisionApproval{Digest: digestOf(releases...), Releases: hashes,
		ApprovedAt: metav1.NewTime(approvedAt)}}
}

// digestOf returns the digest of releases, each as in approved.
func digestOf(releases ...string) string {
	var hashes []string
	for _, r := range releases {
		cluster, content, _ := strings.Cut(r, " ")
		hashes = append(hashes, Hash(cluster, release(content)))
	}
	return Digest(hashes)
}

func TestDecide(t *testing.T) {
	t.Parallel()
	good := map[int64]Revision{6: {Good: true}, 7: {}}
	with := func(r Revision) map[int64]Revision { return map[int64]Revision{6: {Good: true}, 7: r} }
	aborted := rollout.State{Revision: 7, Good: 6, Phase: rollout.PhaseAborted}
	for name, tc := range map[string]struct {
		notRequired bool
		request     string
		revisions   map[int64]Revision
		state       rollout.State
		clusters    []rollout.Cluster

		digest     string
		unapproved bool
		waiting    []string
		own        []string
		refused    string
		recorded   bool
		begins     bool
	}{
		"no approval is required": {notRequired: true, clusters: []rollout.Cluster{member("a", 6)}},
		"a new revision waits": {
			clusters: []rollout.Cluster{member("a", 6), member("b", 6)},
			digest:   digestOf("a 7", "b 7"), unapproved: true, waiting: []string{"a", "b"},
		},
		"a new revision that changes nothing waits": {
			clusters: []rollout.Cluster{member("a", 6, sameUnderBoth)},
			digest:   digestOf("a 6"), unapproved: true,
		},
		"it is the same digest when Clusters have the revision already": {
			clusters: []rollout.Cluster{member("a", 7), member("b", 6)},
			digest:   digestOf("a 7", "b 7"), unapproved: true, waiting: []string{"b"},
		},
		"the management cluster, and Clusters that are paused or of another shard, wait, too": {
			clusters: []rollout.Cluster{member("management cluster", 6),
				member("paused", 6, func(c *rollout.Cluster) { c.Paused = true })},
			digest: Digest([]string{Hash("paused", release("7")), Hash("management cluster", release("7"))}), unapproved: true,
			waiting: []string{"management cluster", "paused"},
		},
		"the first revision waits": {
			state: rollout.State{Revision: 1}, revisions: map[int64]Revision{1: {}},
			clusters: []rollout.Cluster{member("a", 0)},
			digest:   digestOf("a 7"), unapproved: true, waiting: []string{"a"},
		},
		"without a revision nothing waits": {
			state: rollout.State{Revision: -1}, clusters: []rollout.Cluster{member("a", 0)},
		},
		"the digest of the moment approves it": {
			request:  "7/" + digestOf("a 7", "b 7"),
			clusters: []rollout.Cluster{member("a", 6), member("b", 6)},
			digest:   digestOf("a 7", "b 7"), recorded: true, begins: true,
		},
		"another digest is refused": {
			request:  "7/" + digestOf("a 7"),
			clusters: []rollout.Cluster{member("a", 6), member("b", 6)},
			digest:   digestOf("a 7", "b 7"), unapproved: true, waiting: []string{"a", "b"}, refused: digestOf("a 7"),
		},
		"the approval of another revision has no effect": {
			request:  "6/" + digestOf("a 7"),
			clusters: []rollout.Cluster{member("a", 6)},
			digest:   digestOf("a 7"), unapproved: true, waiting: []string{"a"},
		},
		"a number with the same prefix is another revision": {
			request:  "70/" + digestOf("a 7"),
			clusters: []rollout.Cluster{member("a", 6)},
			digest:   digestOf("a 7"), unapproved: true, waiting: []string{"a"},
		},
		"a malformed annotation has no effect": {
			request:  digestOf("a 7"),
			clusters: []rollout.Cluster{member("a", 6)},
			digest:   digestOf("a 7"), unapproved: true, waiting: []string{"a"},
		},
		"while no release is known, nothing can be approved": {
			request:  "7/" + Digest(nil),
			clusters: []rollout.Cluster{member("a", 6, unknown)}, unapproved: true,
		},
		"what is approved does not wait": {
			revisions: with(approved("a 7", "b 7")),
			clusters:  []rollout.Cluster{member("a", 6), member("b", 7)},
			digest:    digestOf("a 7", "b 7"),
		},
		"a change after the approval waits, the others do not": {
			revisions: with(approved("a 7", "b 7")), request: "7/" + digestOf("a 7", "b 7"),
			clusters: []rollout.Cluster{member("a", 7, changed), member("b", 6)},
			digest:   digestOf("a 7 changed", "b 7"), waiting: []string{"a"}, own: []string{"a"},
		},
		"a release with the content that another Cluster has approved waits": {
			revisions: with(approved("a 7", "b 7 changed")),
			clusters:  []rollout.Cluster{member("a", 6, changed), member("b", 6, changed)},
			digest:    digestOf("a 7 changed", "b 7 changed"), waiting: []string{"a"}, own: []string{"a", "b"},
		},
		"the change is approved": {
			revisions: with(approved("a 7", "b 7")), request: "7/" + digestOf("a 7 changed", "b 7"),
			clusters: []rollout.Cluster{member("a", 6, changed), member("b", 6)},
			digest:   digestOf("a 7 changed", "b 7"), own: []string{"a"}, recorded: true,
		},
		"a change that was taken back does not wait": {
			revisions: with(approved("a 7 changed")),
			clusters:  []rollout.Cluster{member("a", 7)},
			digest:    digestOf("a 7 changed"),
		},
		"a new Cluster needs no approval": {
			revisions: with(approved("a 7")),
			clusters:  []rollout.Cluster{member("a", 7), member("new", 0)},
			digest:    digestOf("a 7"),
		},
		"a re-created Cluster needs no approval": {
			revisions: with(approved("a 7")),
			clusters: []rollout.Cluster{member("a", 7), member("new", 6, func(c *rollout.Cluster) {
				c.Child.OfFormerCluster = true
			})},
			digest: digestOf("a 7"),
		},
		"a Cluster that joined after the approval, before its wave, needs no approval": {
			revisions: with(approved("a 7")),
			clusters:  []rollout.Cluster{member("a", 7), member("new", 6, joined(time.Minute))},
			digest:    digestOf("a 7"),
		},
		"a change of its inputs before its wave does": {
			revisions: with(approved("a 7")),
			clusters:  []rollout.Cluster{member("a", 7), member("new", 6, joined(time.Minute), changed)},
			digest:    digestOf("a 7", "new 7 changed"), waiting: []string{"new"}, own: []string{"new"},
		},
		"a Cluster that joined before the approval, and is not in it, waits": {
			revisions: with(approved("a 7")),
			clusters:  []rollout.Cluster{member("a", 7), member("new", 6, joined(-time.Minute))},
			digest:    digestOf("a 7", "new 7"), waiting: []string{"new"},
		},
		"a Cluster that joined under an older revision waits": {
			revisions: with(approved("a 7")),
			clusters:  []rollout.Cluster{member("a", 7), member("new", 5, joined(time.Minute))},
			digest:    digestOf("a 7", "new 7"), waiting: []string{"new"},
		},
		"a later change in it does": {
			revisions: with(approved("a 7")),
			clusters:  []rollout.Cluster{member("a", 7), member("new", 7, changed)},
			digest:    digestOf("a 7", "new 7 changed"), waiting: []string{"new"}, own: []string{"new"},
		},
		"a revision that was rolled out before approvals were required": {
			revisions: with(Revision{Good: true}),
			clusters:  []rollout.Cluster{member("a", 7), member("new", 0)},
			digest:    digestOf("a 7", "new 7"),
		},
		"a change under it": {
			revisions: with(Revision{Good: true}),
			clusters:  []rollout.Cluster{member("a", 7, changed), member("b", 7)},
			digest:    digestOf("a 7 changed", "b 7"), waiting: []string{"a"}, own: []string{"a"},
		},
		"an approved release of a superseded revision": {
			revisions: map[int64]Revision{6: approved("a 6 changed", "b 6"), 7: {}},
			clusters:  []rollout.Cluster{member("a", 6, changed), member("b", 6, changed)},
			digest:    digestOf("a 7 changed", "b 7 changed"), unapproved: true, waiting: []string{"a", "b"},
			own: []string{"b"},
		},
		"a return to the last known good revision needs no approval": {
			state:    aborted,
			clusters: []rollout.Cluster{member("a", 7), member("b", 5), member("c", 6), member("new", 0)},
			digest:   digestOf("a 6", "b 6", "c 6", "new 6"),
		},
		"a change under the last known good revision does": {
			state:    aborted,
			clusters: []rollout.Cluster{member("a", 7, changed), member("b", 6, changed)},
			digest:   digestOf("a 6 changed", "b 6 changed"), waiting: []string{"b"}, own: []string{"a", "b"},
		},
		"it is approved under the number of that revision": {
			state: aborted, request: "6/" + digestOf("a 6 changed"),
			clusters: []rollout.Cluster{member("a", 6, changed)},
			digest:   digestOf("a 6 changed"), recorded: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := Input{Required: !tc.notRequired, Request: tc.request, Revisions: tc.revisions, State: tc.state,
				Clusters: tc.clusters}
			if in.Revisions == nil {
				in.Revisions = good
			}
			switch in.State.Revision {
			case 0:
				in.State = rollout.State{Revision: 7, Good: 6}
			case -1:
				in.State = rollout.State{}
			}
			d := Decide(in)
			if d.Digest != tc.digest || d.Unapproved != tc.unapproved || d.Refused != tc.refused ||
				!slices.Equal(d.Waiting, tc.waiting) {
				t.Errorf("decided %+v, want digest %s, unapproved %t, waiting %q, refused %q", d, tc.digest, tc.unapproved,
					tc.waiting, tc.refused)
			}
			if isRecorded := d.Hashes != nil; isRecorded != tc.recorded || isRecorded && Digest(d.Hashes) != d.Digest {
				t.Errorf("recorded %q", d.Hashes)
			}
			if d.Begins != tc.begins {
				t.Errorf("the rollout begins: %t", d.Begins)
			}
			plan := rollout.Input{Clusters: slices.Clone(tc.clusters)}
			d.Apply(&plan)
			var goal, own []string
			for _, c := range plan.Clusters {
				if c.GoalUnapproved {
					goal = append(goal, c.Name)
				}
				if c.OwnUnapproved {
					own = append(own, c.Name)
				}
			}
			if plan.Unapproved != tc.unapproved || !slices.Equal(goal, tc.waiting) || !slices.Equal(own, tc.own) {
				t.Errorf("the plan gets unapproved %t, goal %q, own %q", plan.Unapproved, goal, own)
			}
		})
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	spec := func(change func(*addonsv1.HelmOpReleaseSpec)) *addonsv1.HelmOpReleaseSpec {
		s := &addonsv1.HelmOpReleaseSpec{ValuesDigest: "v", PostRenderDigest: "p"}
		s.Release = addonsv1.ReleaseIdentity{Name: "a", Namespace: "ns"}
		s.Artifact.Digest = "sha256:1"
		change(s)
		return s
	}
	hash := func(cluster string, change func(*addonsv1.HelmOpReleaseSpec)) string {
		t.Helper()
		h, err := HashOfSpec(cluster, spec(change))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash("c", func(*addonsv1.HelmOpReleaseSpec) {})
	if len(first) != 22 {
		t.Errorf("the hash %q has not 22 characters", first)
	}
	for name, change := range map[string]func(*addonsv1.HelmOpReleaseSpec){
		"deletion policy": func(s *addonsv1.HelmOpReleaseSpec) { s.DeletionPolicy = addonsv1.DeletionPolicyOrphan },
		"revision":        func(s *addonsv1.HelmOpReleaseSpec) { s.Rollout = &addonsv1.ReleaseRollout{Revision: 7} },
		"tag":             func(s *addonsv1.HelmOpReleaseSpec) { s.Artifact.Version = "2" },
	} {
		if hash("c", change) != first {
			t.Errorf("another %s changes the hash", name)
		}
	}
	for name, change := range map[string]func(*addonsv1.HelmOpReleaseSpec){
		"chart":       func(s *addonsv1.HelmOpReleaseSpec) { s.Artifact.Digest = "sha256:2" },
		"values":      func(s *addonsv1.HelmOpReleaseSpec) { s.ValuesDigest = "w" },
		"post-render": func(s *addonsv1.HelmOpReleaseSpec) { s.PostRenderDigest = "" },
		"name":        func(s *addonsv1.HelmOpReleaseSpec) { s.Release.Name = "b" },
		"options":     func(s *addonsv1.HelmOpReleaseSpec) { s.Install = &addonsv1.InstallOptions{} },
		"identity":    func(s *addonsv1.HelmOpReleaseSpec) { s.ImpersonateServiceAccountName = "x" },
	} {
		if hash("c", change) == first {
			t.Errorf("another %s does not change the hash", name)
		}
	}
	if hash("d", func(*addonsv1.HelmOpReleaseSpec) {}) == first {
		t.Error("the hash does not depend on the Cluster")
	}
	if Digest([]string{"a", "b"}) != Digest([]string{"b", "a"}) || Digest([]string{"a", "b"}) == Digest([]string{"ab"}) {
		t.Error("the digest depends on the order, or does not separate the hashes")
	}
}
