//! Every rule of the decision.
