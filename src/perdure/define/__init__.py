"""What people write: decorators become definitions here, and `api` is what they call inside a workflow.

Below it, perdure.kernel runs the definitions; above it, hosts such as perdure.testing drive them.
"""
