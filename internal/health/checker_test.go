// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

func mustChecker(t *testing.T, checks ...Check) *Checker {
	t.Helper()
	checker, err := NewChecker(checks)
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

const (
	deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 2}\nspec: {replicas: 3, " +
		"progressDeadlineSeconds: 600}\n"
	daemonset = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, generation: 2}\n"
	jobText   = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n"
	claim     = "apiVersion: v1\nkind: PersistentVolumeClaim\n"
	podText   = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	custom    = "apiVersion: example.com/v1\nkind: Widget\n"
)

func TestBuiltInKinds(t *testing.T) {
	t.Parallel()
	checker := mustChecker(t)
	for _, tt := range []struct {
		name, object string
		want         Status
		message      string
	}{
		{"a Deployment without a controller", deployment, InProgress, "not all pods exist"},
		{"a Deployment whose change was not seen",
			deployment +
				"status: {observedGeneration: 1, replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3}",
			InProgress, "its controller has not observed the latest change"},
		{"a Deployment that rolls out",
			deployment +
				"status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, readyReplicas: 1, availableReplicas: 1}",
			InProgress, "not all pods are available"},
		{"a Deployment with two of three",
			deployment +
				"status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, readyReplicas: 2, availableReplicas: 2}",
			InProgress, "not all pods are available"},
		{"a Deployment that is stuck",
			deployment +
				"status: {observedGeneration: 2, conditions: [{type: Progressing, status: 'False', reason: " +
				"ProgressDeadlineExceeded}]}", Failed, "its rollout has exceeded its deadline"},
		{"a Deployment of none",
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {generation: 1}\nspec: {replicas: 0}\nstatus: " +
				"{observedGeneration: 1, conditions: [{type: Available, status: 'True'}]}", Current, ""},
		{"a DaemonSet without a controller", daemonset, InProgress, "its controller has not observed it yet"},
		{"a DaemonSet without nodes", daemonset +
			"status: {observedGeneration: 2, desiredNumberScheduled: 0, currentNumberScheduled: 0, numberReady: 0}", Current,
			""},
		{"a DaemonSet on its way", daemonset +
			"status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: " +
			"1, numberAvailable: 2, numberReady: 2}", InProgress, "not all pods are updated to the latest revision"},
		{"a DaemonSet whose owner deletes pods",
			daemonset +
				"spec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 2, desiredNumberScheduled: 2, " +
				"currentNumberScheduled: 2, updatedNumberScheduled: 0, numberAvailable: 2, numberReady: 2}", Current, ""},
		{"the same with a pod that is not ready",
			daemonset +
				"spec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 2, desiredNumberScheduled: 2, " +
				"currentNumberScheduled: 2, numberAvailable: 1, numberReady: 1}", InProgress, "not all pods are available"},
		{"a Job that has not begun", jobText, InProgress, "has not completed"},
		{"a Job that runs", jobText + "status: {startTime: '2026-01-01T00:00:00Z', active: 1}", InProgress,
			"has not completed"},
		{"a Job that tries again", jobText + "status: {startTime: '2026-01-01T00:00:00Z', failed: 3}", InProgress,
			"has not completed"},
		{"a Job that completed", jobText + "status: {conditions: [{type: Complete, status: 'True'}]}", Current, ""},
		{"a Job that failed", jobText +
			"status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded}]}", Failed,
			"has failed: BackoffLimitExceeded"},
		{"a Job that waits", jobText + "spec: {suspend: true}", Current, ""},
		{"a CronJob", "apiVersion: batch/v1\nkind: CronJob\n", Current, ""},
		{"a Service without an address from the cloud",
			"apiVersion: v1\nkind: Service\nspec: {type: LoadBalancer, clusterIP: 10.0.0.1}\nstatus: {loadBalancer: {}}",
			Current, ""},
		{"a claim without consumer", claim + "spec: {storageClassName: local}\nstatus: {phase: Pending}", Current, ""},
		{"a claim that is being provisioned",
			claim +
				"metadata: {annotations: {volume.kubernetes.io/storage-provisioner: x}}\nspec: {storageClassName: " +
				"fast}\nstatus: {phase: Pending}", InProgress, "is not bound to a volume"},
		{"a claim without a class", claim + "status: {phase: Pending}", InProgress, "is not bound to a volume"},
		{"a claim that is bound", claim + "status: {phase: Bound}", Current, ""},
		{"a claim that lost its volume", claim + "status: {phase: Lost}", Failed, "has lost its volume"},
		{"a Pod without node", podText +
			"status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable}]}", InProgress,
			"cannot be scheduled to a node"},
		{"a Pod that crashes", podText +
			"status: {phase: Running, containerStatuses: [{name: c, state: {waiting: {reason: CrashLoopBackOff}}}]}", InProgress,
			"is running but not ready"},
		{"a Pod that failed", podText + "status: {phase: Failed}", Failed, "has failed"},
		{"a Pod that is ready", podText + "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", Current,
			""},
		{"an APIService that does not answer",
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nstatus: {conditions: [{type: Available, status: " +
				"'False', reason: MissingEndpoints}]}", InProgress, "does not respond: MissingEndpoints"},
		{"an APIService that answers",
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nstatus: {conditions: [{type: Available, status: 'True'}]}",
			Current, ""},
		{"a kind without conditions", custom + "spec: {a: 1}", Current, ""},
		{"a kind that is not ready", custom +
			"status: {conditions: [{type: Ready, status: 'False', reason: Waiting, message: 3 of 7 parts}]}", InProgress,
			"is not ready: Waiting"},
		{"a kind that is ready", custom + "status: {conditions: [{type: Ready, status: 'True'}]}", Current, ""},
		{"a kind that is stalled", custom +
			"status: {conditions: [{type: Stalled, status: 'True', reason: Broken, message: no such disk}]}", Failed,
			"has failed: Broken: no such disk"},
		{"a kind whose change was not seen",
			custom + "metadata: {generation: 3}\nstatus: {observedGeneration: 2, conditions: [{type: Ready, status: 'True'}]}",
			InProgress, "its controller has not observed the latest change"},
		{"an object that is being deleted", custom + "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}", Terminating,
			"is being deleted"},
		{"conditions of another form", custom + "status: {conditions: Ready}", Unknown, "its status cannot be evaluated"},
		{"a status of another form", custom + "status: 5", Unknown, "its status cannot be evaluated"},
		{"a generation of another form", custom + "metadata: {generation: two}", Unknown, "its status cannot be evaluated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, message := checker.Check(parse(t, tt.object), "")
			if status != tt.want || message != tt.message {
				t.Errorf("got %s %q, want %s %q", status, message, tt.want, tt.message)
			}
		})
	}
	if status, _ := checker.Check(nil, ""); status != NotFound {
		t.Errorf("nothing is %s", status)
	}
}

func TestChecksOfKinds(t *testing.T) {
	t.Parallel()
	checker := mustChecker(t,
		Check{
			APIVersion: "example.com/v1", Kind: "Widget",
			InProgress: "self.status.phase == 'Moving'",
			Failed:     "self.status.phase in ['Broken', 'Moving']",
			Current:    "self.status.phase == 'Running' && self.status.observed == self.metadata.generation",
		},
		Check{APIVersion: "example.com/v1", Kind: "Widget", Current: "true"},
		Check{APIVersion: "v1", Kind: "Secret", Current: "int(self.data.k) > 3"},
		Check{APIVersion: "v1", Kind: "ConfigMap",
			Current: "[0,1,2,3,4,5,6,7,8,9].map(a, [0,1,2,3,4,5,6,7,8,9].map(b, [0,1,2,3,4,5,6,7,8,9].map(c, " +
				"[0,1,2,3,4,5,6,7,8,9].map(d, [0,1,2,3,4,5,6,7,8,9].map(e, [0,1,2,3,4,5,6,7,8,9].map(f, a)))))).size() > 0"},
		Check{APIVersion: "v1", Kind: "Service", Current: "self.spec.type"},
	)
	const widget = custom + "metadata: {generation: 2}\n"
	for _, tt := range []struct {
		name, object string
		want         Status
		message      string
	}{
		{"in progress comes first", widget + "status: {phase: Moving}", InProgress,
			"is in progress according to its health check"},
		{"failed", widget + "status: {phase: Broken}", Failed, "has failed according to its health check"},
		{"current", widget + "status: {phase: Running, observed: 2}", Current, ""},
		{"none", widget + "status: {phase: Running, observed: 1}", InProgress,
			"is not current yet according to its health check"},
		{"no status", widget, InProgress, `its health check cannot be evaluated yet: field "status" is missing`},
		{"deleted", custom + "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Running}", Terminating,
			"is being deleted"},
		{"another version of the kind", "apiVersion: example.com/v2\nkind: Widget\nstatus: {phase: Broken}", Current, ""},
		{"a value that cannot be converted", "apiVersion: v1\nkind: Secret\ndata: {k: hunter2}", InProgress,
			"its health check cannot be evaluated yet: it cannot be evaluated"},
		{"an endless expression", "apiVersion: v1\nkind: ConfigMap", InProgress,
			"its health check cannot be evaluated yet: it is too expensive"},
		{"not a truth", "apiVersion: v1\nkind: Service\nspec: {type: x}", InProgress,
			"its health check cannot be evaluated yet: it is neither true nor false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, message := checker.Check(parse(t, tt.object), "")
			if status != tt.want || message != tt.message {
				t.Errorf("got %s %q, want %s %q", status, message, tt.want, tt.message)
			}
		})
	}
}

// TestExpressionsAreBounded checks that the memory and the time of each expression are limited. Each expression doubles
// something repeatedly.
func TestExpressionsAreBounded(t *testing.T) {
	t.Parallel()
	object := parse(t, "apiVersion: v1\nkind: ConfigMap\ndata: {k: "+strings.Repeat("x", 100)+"}")
	for name, source := range map[string]string{
		"a text": "[self.data.k]" + strings.Repeat(".map(a, a + a)", 90) + ".size() > 3",
		"a text, then sought": "[self.data.k]" + strings.Repeat(".map(a, 'x' + a + a)", 40) +
			".exists(x, x.contains('yy'))",
		"a list, then looked at":     "[[1]]" + strings.Repeat(".map(a, a + a)", 40) + "[0].exists(x, x > 3)",
		"a list, then compared":      "[[1]]" + strings.Repeat(".map(a, a + a)", 60) + "[0] == [2]",
		"what a list holds":          "[1]" + strings.Repeat(".map(a, [a, a])", 40) + ".all(x, x == x)",
		"what a map holds":           "[1]" + strings.Repeat(".map(a, {'x': a, 'y': a})", 40) + ".all(x, x == x)",
		"what a map of lists yields": "[1]" + strings.Repeat(".map(a, [1, 2].map(b, a))", 40) + ".all(x, x == x)",
		"what lists are joined from": "[self.data]" + strings.Repeat(".map(a, [a] + [a])", 40) + ".exists(x, x in x)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := mustChecker(t, Check{APIVersion: "v1", Kind: "ConfigMap", Current: source})
			status, message := checker.Check(object, "")
			if want := "its health check cannot be evaluated yet: it is too expensive"; status != InProgress ||
				message != want {
				t.Errorf("got %s %q", status, message)
			}
		})
	}
	thousand := make([]any, 1000)
	for i := range thousand {
		thousand[i] = map[string]any{"type": "Part", "status": "True"}
	}
	large := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "status": map[string]any{"conditions": thousand},
	}}
	checker := mustChecker(t, Check{APIVersion: "v1", Kind: "ConfigMap",
		Current: "self.status.conditions.filter(c, c.type == 'Part').map(c, c.status).all(s, s == 'True')"})
	if status, message := checker.Check(large, ""); status != Current {
		t.Errorf("a thousand conditions are too many: %s", message)
	}
}

func TestNewCheckerRejectsInvalidChecks(t *testing.T) {
	t.Parallel()
	valid := Check{APIVersion: "v1", Kind: "Pod", Current: "true"}
	for _, tt := range []struct {
		name  string
		check Check
		want  string
	}{
		{"no expression", Check{APIVersion: "v1", Kind: "Pod"}, "checks[1].current: must not be empty"},
		{"syntax", Check{APIVersion: "v1", Kind: "Pod", Current: "true", Failed: "self."},
			"checks[1].failed: line 1, column 6: Syntax error: "},
		{"a name that does not exist",
			Check{APIVersion: "v1", Kind: "Pod", Current: "true", InProgress: "status.phase == 'x'"}, "checks[1].inProgress: "},
		{"another type", Check{APIVersion: "v1", Kind: "Pod", Current: "1 + 1"},
			"checks[1].current: must be true or false, not of type int"},
		{"version", Check{APIVersion: "a/b/c", Kind: "Pod", Current: "true"}, "checks[1].apiVersion: "},
		{"too deep", Check{APIVersion: "v1", Kind: "Pod",
			Current: strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000)}, "checks[1].current: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := NewChecker([]Check{valid, tt.check})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
		})
	}
}

func TestCheckersAreShared(t *testing.T) {
	t.Parallel()
	check := Check{APIVersion: "v1", Kind: "Pod", Current: "self.metadata.name == 'shared'"}
	one, two, other := mustChecker(t, check), mustChecker(t, check), mustChecker(t)
	if one != two || one == other || !one.Equal(two) || one.Equal(other) || one.Equal(nil) {
		t.Error("the checks do not decide whether checkers are equal")
	}
	if one.Digest() != two.Digest() || one.Digest() == other.Digest() || other.Digest() == (*Checker)(nil).Digest() {
		t.Error("the checks do not decide which digest a checker has")
	}
	if (*Checker)(nil).Equal(other) || !(*Checker)(nil).Equal(nil) {
		t.Error("nil equals nil only")
	}
	if mustChecker(t, []Check{}...) != mustChecker(t) {
		t.Error("none is none")
	}
	gvk := parse(t, podText).GroupVersionKind()
	if !one.Has(gvk) || other.Has(gvk) {
		t.Error("Has reports only checks")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("Deployment", []byte(`{"status":{"conditions":[{"type":"Available","status":"True"}]}}`))
	f.Add("Pod", []byte(`{"status":{"phase":"Running","containerStatuses":[5]}}`))
	f.Add("Job", []byte(`{"status":{"conditions":[null,{"type":7}]},"spec":{"suspend":"yes"}}`))
	f.Add("DaemonSet",
		[]byte(`{"metadata":{"generation":1},"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"desiredNumberScheduled":"x"}}`))
	checker, err := NewChecker([]Check{{APIVersion: "v1", Kind: "Widget", Current: "self.status.phase.size() > 2"}})
	if err != nil {
		f.Fatal(err)
	}
	groups := map[string]string{"Deployment": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1",
		"Job": "batch/v1"}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		var content map[string]any
		if yaml.Unmarshal(data, &content) != nil || content == nil {
			return
		}
		obj := &unstructured.Unstructured{Object: content}
		obj.SetKind(kind)
		obj.SetAPIVersion("v1")
		if group, ok := groups[kind]; ok {
			obj.SetAPIVersion(group)
		}
		status, message := checker.Check(obj, "")
		if status == "" || len(message) > maxMessageBytes || (status == Current) != (message == "") {
			t.Errorf("%s %q", status, message)
		}
	})
}

// BenchmarkCheck measures the check of one event of an object.
func BenchmarkCheck(b *testing.B) {
	object, err := yaml.YAMLToJSON([]byte(deployment +
		"status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, readyReplicas: 1, availableReplicas: 1}"))
	if err != nil {
		b.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(object); err != nil {
		b.Fatal(err)
	}
	for name, checks := range map[string][]Check{
		"kstatus": nil,
		"CEL":     {{APIVersion: "apps/v1", Kind: "Deployment", Current: "self.status.readyReplicas == self.spec.replicas"}},
	} {
		checker, err := NewChecker(checks)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				checker.Check(obj, "")
			}
		})
	}
}

// TestCheckAppliesInOtherVersion checks that the check for the version in the manifest applies to an object in another
// version, unless there is a check for the other version.
func TestCheckAppliesInOtherVersion(t *testing.T) {
	t.Parallel()
	former := Check{APIVersion: "example.com/v1beta1", Kind: "Widget", Failed: "true", Current: "false"}
	served := Check{APIVersion: "example.com/v1", Kind: "Widget", Current: "true"}
	object := `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}`
	for name, tc := range map[string]struct {
		checks  []Check
		version string
		want    Status
	}{
		"only the former version": {[]Check{former}, "v1beta1", Failed},
		"both versions":           {[]Check{former, served}, "v1beta1", Current},
		"a third version":         {[]Check{former}, "v1alpha1", Current},
	} {
		checker, err := NewChecker(tc.checks)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := checker.Check(parse(t, object), tc.version); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
