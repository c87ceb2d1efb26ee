"""A campaign on a pipeline that is not one of ours."""
