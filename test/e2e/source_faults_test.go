// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	// planted is in every invented body of a registry, and in its headers. It must be in no object and no log.
	planted = "planted-by-the-registry"

	// faultTimeout is the value of --registry-timeout. It is so long that a wait for it would be noticed.
	faultTimeout = 60 * time.Second

	// prompt is the timeout for a HelmOp that the faults do not affect. It is shorter than faultTimeout.
	prompt = 50 * time.Second

	// leastRetry is the shortest time between two tries after a failure.
	leastRetry = 5 * time.Second

	// hanging is the number of HelmOps whose registry hangs. It is more than there are workers.
	hanging = 12
)

// sourceFault is a failing registry, with the expected status of a HelmOp whose first request fails.
type sourceFault struct {
	fault registry.Fault
	// on are the kinds of requests that fail. Default: all.
	on []registry.Kind
	// raw returns the artifact that the registry has instead of a chart.
	raw func() (registry.Raw, error)
	// index is true if the registry has an index instead of a chart.
	index bool
	ref   addonsv1.ArtifactReference

	// reason is the reason of Resolved, or of Released if release is set. Without a reason, the HelmOp becomes Ready
	// despite the fault.
	reason  string
	release bool
	texts   []string
	// perTry is the largest number of requests of one try.
	perTry int
	// forGood is true if the effect does not end with the fault, because the registry requested a pause.
	forGood bool
	// version is the installed version at the end. Default: 1.0.0.
	version string
	// look checks the requests to the registry.
	look func(g gomega.Gomega, r *registry.Registry)
}

// brokenArchive returns a chart with an entry that charts must not have.
func brokenArchive(entry registry.Entry) func() (registry.Raw, error) {
	return func() (registry.Raw, error) {
		files := uniqueNoteFiles("1.0.0")
		archive, err := registry.Archive(registry.TextFile("note/Chart.yaml", files["Chart.yaml"]), entry)
		return chartOf(archive), err
	}
}

func chartOf(archive []byte) registry.Raw {
	return registry.Raw{
		ConfigType: "application/vnd.cncf.helm.config.v1+json", Config: []byte(`{"name":"note","version":"1.0.0"}`),
		Layers: []registry.Layer{{MediaType: registry.ChartLayerType, Data: archive}},
	}
}

func gzipBomb() (registry.Raw, error) {
	archive, err := registry.GzipBomb("note", "1.0.0", 512<<20)
	return chartOf(archive), err
}

// errorCodes are the codes of the distribution specification by HTTP status.
var errorCodes = map[int]string{
	http.StatusUnauthorized: "UNAUTHORIZED", http.StatusForbidden: "DENIED", http.StatusNotFound: "MANIFEST_UNKNOWN",
	http.StatusTooManyRequests: "TOOMANYREQUESTS",
}

func status(code int, header ...string) registry.Fault {
	fault := registry.Fault{
		Mode: registry.Status, Code: code, Header: http.Header{"X-Planted": {planted}},
		Body: []byte(`{"errors":[{"code":"` + cmp.Or(errorCodes[code], "UNKNOWN") + `","message":"` + planted +
			`","detail":"` + planted + `"}]}`),
	}
	for i := 0; i < len(header); i += 2 {
		fault.Header.Set(header[i], header[i+1])
	}
	return fault
}

// TestSourceFaults creates one HelmOp for each kind of registry fault. The first request of each HelmOp fails. The test
// checks that the status reports the reason and that the number of requests is bounded. Other HelmOps are not delayed,
// in the same namespace or in another, and HelmOp recovers by itself. The manager's memory stays bounded.
func TestSourceFaults(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{
		ManagerArgs: []string{"--v=6", "--registry-timeout=" + faultTimeout.String(), "--memory-limit=" + memoryLimit},
	})
	s, other := newScenarioIn(t, env), newScenarioIn(t, env)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	bystander := s.newHelmOp("bystander", forAll,
		s.from(s.namespace+"/bystander", addonsv1.ArtifactReference{Semver: "1.x"}))
	s.pushChart(s.namespace+"/bystander", environment.ChartMetadata{Chart: environment.ChartHello, Version: "1.0.0"})
	s.create(bystander)
	one.eventuallyReleased(bystander, releaseNamespace, "bystander", 1)
	neighbour := newNeighbour(other.clusters(testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})[0])
	memory := s.followMemory()

	met := map[string]*metFault{}
	faults := sourceFaults(s)
	for name, fault := range faults {
		met[name] = s.meet(name, fault)
	}
	for i := range hanging {
		hung := s.bare(met["hang"].registry, fmt.Sprintf("hang-%d", i), chartRepository,
			addonsv1.ArtifactReference{Tag: "1.0.0"})
		s.create(hung)
	}
	s.step("another HelmOp is served meanwhile", func(s *scenario) {
		begin := time.Now()
		s.pushChart(s.namespace+"/bystander", environment.ChartMetadata{Chart: environment.ChartHello, Version: "1.1.0"})
		one := one.in(s)
		one.eventuallyHello(releaseNamespace, "bystander", map[string]string{"chartVersion": "1.1.0"})
		s.Expect(time.Since(begin)).To(gomega.BeNumerically("<", prompt), "until a new version was installed")
	})
	s.step("another tenant is served meanwhile", func(s *scenario) { neighbour.expectServed(s.T) })
	// All faults end before any recovery is awaited: the longer a fault lasts, the later is the next try.
	for _, name := range slices.Sorted(maps.Keys(met)) {
		s.Run(name, func(t *testing.T) { met[name].expectOutcome(one.in(s.in(t))) })
	}
	for _, name := range slices.Sorted(maps.Keys(met)) {
		s.Run(name+" no more", func(t *testing.T) { met[name].expectRecovered(one.in(s.in(t))) })
	}
	s.step("another HelmOp is not affected", func(s *scenario) {
		one.in(s).eventuallyReleased(bystander, releaseNamespace, "bystander", 2)
		s.eventually(bystander, ready(1))
		neighbour.expectUntouched(s.T)
	})
	s.step("a registry that requested a pause gets none", func(s *scenario) { met["rate-limited"].checkRequests(s) })
	s.step("the manager's memory is bounded", memory.expectBounded)
	s.step("texts of registries and credentials are in no object and no log", func(s *scenario) {
		texts := []string{planted}
		for _, m := range met {
			texts = append(texts, m.registry.Password())
		}
		s.expectAbsent(texts...)
	})
}

// metFault is a sourceFault with its registry and its HelmOp.
type metFault struct {
	sourceFault
	registry *registry.Registry
	helmOp   *addonsv1.HelmOp
	created  time.Time
	end      func()
}

// meet starts a failing registry, and creates a HelmOp that uses it.
func (s *scenario) meet(name string, fault sourceFault) *metFault {
	s.Helper()
	m := &metFault{sourceFault: fault, registry: s.startRegistry(registry.Options{}), end: func() {}}
	if m.ref == (addonsv1.ArtifactReference{}) {
		m.ref.Tag = "1.0.0"
	}
	if m.version == "" {
		m.version = "1.0.0"
	}
	m.push(s)
	m.fault.Match = registry.In(chartRepository, fault.on...)
	switch m.fault.Mode {
	case registry.None:
	case registry.Down:
		s.must(m.registry.SetFault(m.fault))
		m.end = func() { s.must(m.registry.SetFault(registry.Fault{})) }
	default:
		var err error
		m.end, err = m.registry.Fail(m.fault)
		s.must(err)
	}
	m.helmOp = s.noteFrom(m.registry, name, chartRepository, m.ref)
	m.created = time.Now()
	s.create(m.helmOp)
	return m
}

func (m *metFault) push(s *scenario) {
	s.Helper()
	switch {
	case m.raw != nil:
		raw, err := m.raw()
		s.must(err)
		_, err = m.registry.PushRaw(s.Context(), chartRepository, "1.0.0", raw)
		s.must(err)
	case m.index:
		pushed, err := m.registry.PushChart(s.Context(), chartRepository, "0.9.0", uniqueNote("0.9.0"))
		s.must(err)
		_, err = m.registry.PushIndex(s.Context(), chartRepository, "1.0.0", pushed)
		s.must(err)
	default:
		s.pushUnique(m.registry, chartRepository, m.version)
	}
}

// expectOutcome waits for the expected reason, or until the chart is installed. Then it checks the number of requests
// and ends the fault.
func (m *metFault) expectOutcome(w *workload) {
	s := w.scenario
	s.Helper()
	name := m.helmOp.Name
	switch {
	case m.reason == "":
		m.expectReleased(w)
	case m.release:
		child := s.child(m.helmOp, w.name, childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, m.reason),
			func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
				g.Expect(child.Status.Failures).To(gomega.BeZero(), "nothing was tried in the cluster")
			})
		s.eventuallyEvent(child, m.reason)
		s.eventually(m.helmOp, failure(w.name, m.reason, m.texts...))
	default:
		s.eventually(m.helmOp, unresolved(m.reason, m.texts...))
		s.eventuallyEvent(m.helmOp, m.reason)
	}
	if m.reason != "" {
		w.eventuallyRevisions(releaseNamespace, name)
	}
	m.expectFew(s)
	if m.ref.Tag != "" {
		s.Expect(m.registry.Counts(registry.In(chartRepository)).TagLists).To(gomega.BeZero(),
			"listings of tags for a fixed tag")
	}
	if m.forGood {
		return
	}
	m.end()
	if m.raw != nil || m.index {
		s.pushUnique(m.registry, chartRepository, m.version)
	}
}

// expectRecovered waits until the HelmOp has recovered, and checks all requests to the registry.
func (m *metFault) expectRecovered(w *workload) {
	w.scenario.Helper()
	if !m.forGood {
		m.expectReleased(w)
	}
	m.checkRequests(w.scenario)
}

// expectReleased waits until the chart is installed and the conditions no longer mention the fault.
func (m *metFault) expectReleased(w *workload) {
	s, name := w.scenario, m.helmOp.Name
	s.Helper()
	w.eventuallyReleased(m.helmOp, releaseNamespace, name, 1)
	w.eventuallyHello(releaseNamespace, name, map[string]string{"chartVersion": m.version})
	s.eventually(m.helmOp, ready(1), resolved)
}

// expectFew checks that the number of requests is within the limit for the tries so far.
func (m *metFault) expectFew(s *scenario) {
	s.Helper()
	tries := int(time.Since(m.created)/leastRetry) + 1
	counts := m.registry.Counts(registry.In(chartRepository))
	s.Logf("%s: %+v in %d tries at most", m.helmOp.Name, counts, tries)
	if m.perTry == 0 {
		return
	}
	requests := counts.Total()
	if m.release {
		// The source is resolved repeatedly; only blobs count.
		requests = counts.BlobGets
	}
	s.Expect(requests).To(gomega.And(gomega.BeNumerically(">", 0), gomega.BeNumerically("<=", tries*m.perTry)),
		"requests in %d tries: %+v", tries, counts)
}

func (m *metFault) checkRequests(s *scenario) {
	s.Helper()
	if m.look != nil {
		m.look(s, m.registry)
	}
}

// sourceFaults returns all faults by the name of their HelmOp.
func sourceFaults(s *scenario) map[string]sourceFault {
	s.Helper()
	bigManifest, err := registry.BigManifest(10 << 20)
	s.must(err)
	manifests := []registry.Kind{registry.ManifestGet, registry.ManifestHead}
	blobs := []registry.Kind{registry.BlobGet}
	tags := make([]string, 0, 10_000)
	for i := range cap(tags) - 1 {
		tags = append(tags, "0.1."+strconv.Itoa(i))
	}
	tags = append(tags, "1.0.0")
	return map[string]sourceFault{
		"refused": {fault: registry.Fault{Mode: registry.Down}, reason: addonsv1.RegistryUnreachableReason},
		"hang": {fault: registry.Fault{Mode: registry.Hang}, reason: addonsv1.RegistryUnreachableReason,
			perTry: hanging + 1},
		"hang-in-manifest": {
			fault: registry.Fault{Mode: registry.Drip, Pause: time.Hour}, on: manifests,
			reason: addonsv1.RegistryUnreachableReason, perTry: 4,
		},
		"hang-in-chart": {
			fault: registry.Fault{Mode: registry.Drip, Pause: time.Hour}, on: blobs, reason: addonsv1.RegistryUnreachableReason,
			release: true, perTry: 4,
		},
		"truncated-manifest": {fault: registry.Fault{Mode: registry.Truncate}, on: manifests,
			reason: addonsv1.ArtifactInvalidReason, perTry: 8},
		"truncated-chart": {
			fault: registry.Fault{Mode: registry.Truncate}, on: blobs, reason: addonsv1.ArtifactFetchFailedReason,
			release: true, texts: []string{"content does not match its digest"}, perTry: 4,
		},
		"corrupt-manifest": {fault: registry.Fault{Mode: registry.Corrupt}, on: manifests,
			reason: addonsv1.ArtifactInvalidReason, perTry: 8},
		"corrupt-chart": {
			fault: registry.Fault{Mode: registry.Corrupt}, on: blobs, reason: addonsv1.ArtifactFetchFailedReason,
			release: true, texts: []string{"content does not match its digest"}, perTry: 4,
		},
		"realm": {
			// The registry requests that the password be sent to a host inside the network.
			fault: status(http.StatusUnauthorized, "WWW-Authenticate",
				`Bearer realm="https://127.0.0.2:1/`+planted+`",service="`+planted+`"`),
			reason: addonsv1.RegistryAuthenticationFailedReason, texts: []string{"token service"}, perTry: 2,
		},
		"forbidden": {fault: status(http.StatusForbidden), reason: addonsv1.RegistryAuthenticationFailedReason,
			texts: []string{"403", "Secret"}, perTry: 4},
		"missing": {fault: status(http.StatusNotFound), reason: addonsv1.ArtifactNotFoundReason, perTry: 3},
		"rate-limited": {
			fault: status(http.StatusTooManyRequests, "Retry-After", "3600"), reason: addonsv1.RegistryRateLimitedReason,
			perTry: 2, forGood: true,
			look: func(g gomega.Gomega, r *registry.Registry) {
				g.Expect(len(limited(r))).To(gomega.Equal(1), "requests to a registry that requested a pause of an hour")
			},
		},
		"server-error": {fault: status(http.StatusInternalServerError), reason: addonsv1.RegistryErrorReason,
			texts: []string{"500"}, perTry: 9},
		"downgrade": {
			fault:  registry.Fault{Mode: registry.Redirect, To: "http://127.0.0.1:1"},
			reason: addonsv1.RegistryCertificateInvalidReason, texts: []string{"without TLS"}, perTry: 4,
		},
		"big-manifest": {fault: bigManifest, on: manifests, reason: addonsv1.ArtifactInvalidReason, perTry: 3},
		"index":        {index: true, reason: addonsv1.UnsupportedArtifactReason, texts: []string{"index"}, perTry: 4},
		"bomb":         {raw: gzipBomb, reason: addonsv1.ChartInvalidReason, release: true},
		"link": {
			raw: brokenArchive(registry.Entry{Header: tar.Header{Name: "note/values.yaml", Typeflag: tar.TypeSymlink,
				Linkname: "/etc/passwd"}}),
			reason: addonsv1.ChartInvalidReason, release: true, texts: []string{"link"},
		},
		"ten-thousand-tags": {
			fault: registry.Fault{Mode: registry.TagPages, Tags: tags, PageSize: 1000},
			ref:   addonsv1.ArtifactReference{Semver: ">=0.1"},
			look: func(g gomega.Gomega, r *registry.Registry) {
				counts := r.Counts(registry.In(chartRepository))
				g.Expect(counts.TagLists).To(gomega.And(gomega.BeNumerically(">=", 10),
					gomega.BeNumerically("<=", 10*(counts.ManifestHeads+1))),
					"ten pages for each listing: %+v", counts)
			},
		},
		"twice": {
			fault: func() registry.Fault {
				fault := status(http.StatusInternalServerError)
				fault.Times = 2
				return fault
			}(), on: []registry.Kind{registry.ManifestHead},
			look: func(g gomega.Gomega, r *registry.Registry) {
				answers := r.Requests(registry.In(chartRepository, registry.ManifestHead), func(request registry.Request) bool {
					return request.Code != http.StatusUnauthorized
				})
				g.Expect(len(answers)).To(gomega.BeNumerically(">", 2))
				g.Expect([]int{answers[0].Code, answers[1].Code, answers[2].Code}).To(gomega.Equal([]int{500, 500, 200}))
			},
		},
		"head-refused": {
			fault: status(http.StatusMethodNotAllowed), on: []registry.Kind{registry.ManifestHead},
			look: func(g gomega.Gomega, r *registry.Registry) {
				g.Expect(r.Counts().ManifestGets).To(gomega.BeNumerically(">", 0))
			},
		},
		"slow": {fault: registry.Fault{Mode: registry.Drip, Pause: 2 * time.Millisecond}},
		"redirect": {
			fault: registry.Fault{Mode: registry.Redirect}, on: blobs,
			look: func(g gomega.Gomega, r *registry.Registry) {
				requests := r.BlobHost().Requests()
				g.Expect(requests).NotTo(gomega.BeEmpty(), "requests to the host of the redirect")
				for _, request := range requests {
					g.Expect(request.Authorization).To(gomega.BeEmpty(), "the credential in %+v", request)
				}
			},
		},
	}
}

// limited returns the requests that were answered with 429.
func limited(r *registry.Registry) []registry.Request {
	return r.Requests(func(request registry.Request) bool { return request.Code == http.StatusTooManyRequests })
}
