// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

// testSecrets uses a secret in places where it could leak: in a working release, in values that the schema refuses, in
// invalid YAML, in an object that the API server refuses, and in a failing template. Then it checks that no object and
// no log contains the secret.
func testSecrets(s *scenario, one *workload) {
	// The marker is not valid as a label or a CIDR, so that validations have a reason to quote it.
	marker := "s3cret/" + rand.Text()
	for _, leak := range []struct {
		name, values, reason string
		change               func(*addonsv1.HelmOp)
	}{
		{name: "leak-none", values: "token: " + marker},
		{name: "leak-schema", values: "podCIDR: " + marker, reason: addonsv1.ValuesInvalidReason,
			change: func(h *addonsv1.HelmOp) {
				h.Spec.Values = rawJSON(map[string]any{"cluster": "one"})
			}},
		{name: "leak-object", values: "flavour: " + marker, reason: addonsv1.InstallFailedReason,
			change: func(h *addonsv1.HelmOp) {
				h.Spec.Source = s.env.Source("charts/"+environment.ChartKitchen, addonsv1.ArtifactReference{Tag: "1.0.0"})
				h.Spec.Values = rawJSON(map[string]any{"objects": 1})
			}},
		{name: "leak-yaml", values: "token: [" + marker, reason: addonsv1.TemplateFailedReason},
		{name: "leak-type", values: "token: {a: {b: " + marker + "}}\n" + marker, reason: addonsv1.TemplateFailedReason},
	} {
		s.createSecret(leak.name, leak.values)
		helmOp := s.newHelmOp(leak.name, forAll, func(h *addonsv1.HelmOp) {
			h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: leak.name}}
			if leak.change != nil {
				leak.change(h)
			}
		})
		s.create(helmOp)
		switch leak.reason {
		case "":
			one.eventuallyReleased(helmOp, releaseNamespace, leak.name, 1)
			one.eventuallyHello(releaseNamespace, leak.name, map[string]string{"tokenDigest": sha256Of(marker)})
		case addonsv1.TemplateFailedReason:
			s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, leak.reason))
		default:
			s.child(helmOp, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, leak.reason))
			s.eventuallyWarning(leak.name, leak.reason)
		}
	}
	credentials := s.env.Registry.Username() + ":" + s.env.Registry.Password()
	s.expectAbsent(marker, strings.TrimPrefix(marker, "s3cret/"), base64.StdEncoding.EncodeToString([]byte(marker)),
		s.env.Registry.Password(), base64.StdEncoding.EncodeToString([]byte(credentials)))
}

// eventuallyWarning waits for an Event about a HelmOp or one of its releases.
func (s *scenario) eventuallyWarning(helmOp, reason string) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		events := &eventsv1.EventList{}
		g.Expect(s.client.List(ctx, events, client.InNamespace(s.namespace))).To(gomega.Succeed())
		var found []string
		for i := range events.Items {
			event := &events.Items[i]
			if strings.HasPrefix(event.Regarding.Name, helmOp) && event.Type == "Warning" {
				found = append(found, event.Reason)
			}
		}
		g.Expect(found).To(gomega.ContainElement(reason), "warnings about %s", helmOp)
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// expectAbsent fails if one of the texts is in an object that HelmOp writes, in an Event or in the log of a manager.
func (s *scenario) expectAbsent(texts ...string) {
	s.Helper()
	places := map[string]string{}
	for _, kind := range []string{"HelmOpList", "HelmOpReleaseList"} {
		s.collect(places, addonsv1.GroupVersion.String(), kind)
	}
	s.collect(places, "v1", "EventList")
	s.collect(places, "events.k8s.io/v1", "EventList")
	s.Expect(len(places)).To(gomega.BeNumerically(">", 10), "objects to search")
	for _, manager := range s.env.Managers() {
		lines := 0
		s.must(eachLine(manager.LogFile(), func(line string) {
			lines++
			places[fmt.Sprintf("%s:%d", manager.LogFile(), lines)] = line
		}))
		s.Expect(lines).To(gomega.BeNumerically(">", 100), "a manager at --v=6 logs more lines")
	}
	for place, content := range places {
		for _, text := range texts {
			if strings.Contains(content, text) {
				s.Errorf("a secret is in %s: %s", place, content)
			}
		}
	}
}

// collect adds all objects of a kind, of all namespaces, as JSON.
func (s *scenario) collect(places map[string]string, apiVersion, kind string) {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind)
	s.must(s.client.List(s.Context(), list))
	for i := range list.Items {
		obj := &list.Items[i]
		places[fmt.Sprintf("%s %s/%s", obj.GetKind(), obj.GetNamespace(), obj.GetName())] = toJSON(obj.Object)
	}
}
