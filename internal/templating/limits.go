// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

// The limits of a rendering. They protect the manager, which renders for all tenants, from a single template.
const (
	// maxTemplateBytes bounds one template. The API server refuses objects that are not much larger.
	maxTemplateBytes = 256 << 10

	// maxDocumentBytes bounds spec.values as JSON, one valuesFrom document, and the output of
	// valuesTemplate. Helm stores values in a Secret of at most 1 MiB.
	maxDocumentBytes = 1 << 20

	// maxSourceBytes bounds the total size of the values sources of a Spec that all Clusters share.
	// Sources of one Cluster are charged to the budget of its rendering.
	maxSourceBytes = 32 << 20

	// maxPathSteps bounds the keys and indices of a targetPath, and maxPathIndex one index.
	maxPathSteps, maxPathIndex = 32, 999

	// maxPostRenderItems bounds patches, images, labels and annotations, as the API does for each spec.postRender alone.
	maxPostRenderItems = 64

	// maxValueBytes bounds the arguments and the result of one function call, so that doubling a
	// string in a loop ends.
	maxValueBytes = 1 << 20

	// maxDepth bounds the nesting of values, so that recursion cannot exhaust the stack. Charts stay
	// below 20.
	maxDepth = 100

	// maxNodes bounds the number of values in one document after its YAML aliases are expanded.
	maxNodes = 100_000

	// maxArguments bounds the arguments of one call, because some functions multiply all of them.
	maxArguments = 256

	// maxWork is the budget of one rendering. The values of a typical CNI need a thousandth of it; a
	// test checks that they need less than a hundredth. The whole budget takes at most about a second
	// on one core.
	maxWork = 16 << 20

	// The costs of operations. A byte of text costs 1, a value in a list or map costNode, a function
	// call costCall. A loop iteration costs costStep, and costParsed for each parsed node in the loop.
	// The latter pays for the functions of text/template that are not wrapped.
	costNode   = 32
	costCall   = 256
	costStep   = 256
	costParsed = 64
)
